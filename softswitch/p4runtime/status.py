"""Canonical error codes, one status per update, and the exceptions that carry them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum

from softswitch.p4runtime.protos import p4r, rpc_status


class Code(IntEnum):
    """gRPC's canonical codes (google/rpc/code.proto)."""

    OK = 0
    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    ALREADY_EXISTS = 6
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    ABORTED = 10
    OUT_OF_RANGE = 11
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    DATA_LOSS = 15
    UNAUTHENTICATED = 16


ERROR_SPACE = "ALL-sswitch-p4org"
"""`p4.v1.Error.space`, the same string that BMv2 sends."""


@dataclass(frozen=True, slots=True)
class UpdateStatus:
    """What became of one update (or one entity of a read): a code and, unless OK, why."""

    code: Code
    message: str = ""

    def __str__(self) -> str:
        return self.code.name if self.code is Code.OK else f"{self.code.name}: {self.message}"


OK = UpdateStatus(Code.OK)


class EntityError(Exception):
    """One entity of a request is wrong; becomes that entity's status."""

    def __init__(self, code: Code, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message

    @property
    def status(self) -> UpdateStatus:
        """The status to report for the entity."""
        return UpdateStatus(self.code, self.message)


class PipelineError(Exception):
    """P4Info and device config can't be used: not BMv2 JSON, or they don't belong together."""


class WriteError(Exception):
    """At least one update of a write failed; `statuses` has one element per update, in order."""

    def __init__(self, statuses: Sequence[UpdateStatus]) -> None:
        self.statuses = tuple(statuses)
        lines = [
            f"update {index}: {status}"
            for index, status in enumerate(self.statuses)
            if status.code is not Code.OK
        ]
        super().__init__("\n".join(lines))


class ReadError(Exception):
    """A read failed; `statuses` has one element per requested entity, in order."""

    def __init__(self, statuses: Sequence[UpdateStatus]) -> None:
        self.statuses = tuple(statuses)
        super().__init__("; ".join(str(s) for s in self.statuses if s.code is not Code.OK))


DETAIL_BYTES = 5400
"""Most bytes of a call's details, unless the client takes more: gRPC gives all metadata 8 KB, and
in base 64."""

TEXT_BYTES = 700
"""Most bytes of the text beside them."""


def batch_status(
    statuses: Sequence[UpdateStatus], most_bytes: int = DETAIL_BYTES
) -> rpc_status.Status:
    """Pack statuses the way the specification wants them in a failed Write's or Read's trailer.

    The top-level code is UNKNOWN and `details` holds one p4.v1.Error per update, those that
    succeeded included (specification, "Error reporting messages"). What no client would take for
    its length loses messages first, the last ones, then all: then there are no details.
    """
    failed = [index for index, status in enumerate(statuses) if status.code is not Code.OK]
    most = len(failed)
    while True:
        said = frozenset(failed[:most])
        result = _batch(statuses, said)
        if result.ByteSize() <= most_bytes:
            return result
        if not said:
            del result.details[:]
            return result
        most //= 2


def _batch(statuses: Sequence[UpdateStatus], said: frozenset[int]) -> rpc_status.Status:
    """Return a status with one element per update; those in `said` have a message."""
    result = rpc_status.Status(code=Code.UNKNOWN, message="at least one of the entities failed")
    brief = len(said) < sum(status.code is not Code.OK for status in statuses)
    for index, status in enumerate(statuses):
        error = p4r.Error(canonical_code=status.code)
        if index in said:
            error.message = status.message
            error.space = ERROR_SPACE
        # The host of a type's URL says nothing, and takes half of an element without a message.
        result.details.add().Pack(error, type_url_prefix="" if brief else "type.googleapis.com/")
    return result


def batch_text(statuses: Sequence[UpdateStatus]) -> str:
    """Return a line per failed update, as many as fit TEXT_BYTES."""
    lines = [
        f"update {index}: {status}"
        for index, status in enumerate(statuses)
        if status.code is not Code.OK
    ]
    text = ""
    for number, line in enumerate(lines):
        more = text + ("\n" if text else "") + line
        if len(more.encode()) > TEXT_BYTES:
            left = f"{len(lines) - number} more of {len(statuses)} updates failed"
            return f"{text}\n{left}" if text else f"{line[: TEXT_BYTES // 4]}...\n{left}"
        text = more
    return text


def refusal_status(code: Code, message: str, statuses: Iterable[UpdateStatus]) -> rpc_status.Status:
    """Return the status of a refused call: one p4.v1.Error per reason, as many as fit
    DETAIL_BYTES.
    """
    result = rpc_status.Status(code=code, message=message[: DETAIL_BYTES // 4])
    for status in statuses:
        error = p4r.Error(canonical_code=status.code, message=status.message, space=ERROR_SPACE)
        result.details.add().Pack(error)
        if result.ByteSize() > DETAIL_BYTES:
            del result.details[-1]
            break
    return result
