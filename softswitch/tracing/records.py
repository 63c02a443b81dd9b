"""What happened to one received packet, in order: branches, and the steps of each.

A branch is the packet as received, or something made of it: a clone, a replica, or its next round
after resubmit or recirculate. Times are the switch's, in picoseconds.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any


class Outcome(StrEnum):
    """How a branch ended (enum ws_trace_end), or that it has not."""

    SENT = "sent"
    TO_CPU = "to the CPU port"
    DROPPED_IN_INGRESS = "dropped in ingress"
    DROPPED_IN_EGRESS = "dropped in egress"
    QUEUE_FULL = "dropped: queue full"
    PORT_DOWN = "dropped: port down"
    NO_SUCH_PORT = "dropped: no such port"
    NO_SUCH_QUEUE = "dropped: no such queue"
    NO_ROOM_TO_RECIRCULATE = "dropped: recirculation path full"
    NO_SUCH_GROUP = "dropped: no such multicast group"
    RESUBMITTED = "resubmitted"
    RECIRCULATED = "recirculated"
    GONE = "dropped"
    LOST = "dropped: lost on the link"
    BUFFER_FULL = "dropped: buffer full"
    PAUSE = "taken as a pause (PFC)"
    UNFINISHED = "on its way"

    @property
    def dropped(self) -> bool:
        """Whether the packet ended here without going anywhere."""
        return self.value.startswith("dropped")


@dataclass(frozen=True, slots=True)
class Value:
    """A named value of `bits` bits."""

    name: str
    bits: int
    value: int


@dataclass(frozen=True, slots=True)
class Change:
    """A field of valid header or of metadata got another value."""

    field: str
    bits: int
    before: int
    after: int


@dataclass(frozen=True, slots=True)
class HeaderValue:
    """A header that became valid, with all its fields."""

    name: str
    fields: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Effects:
    """What a step did to headers and metadata."""

    added: tuple[HeaderValue, ...] = ()
    removed: tuple[str, ...] = ()
    changes: tuple[Change, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.changes)


@dataclass(frozen=True, slots=True)
class Use:
    """An array's cell that an action used, or a line that it logged.

    `kind`: register read, register write, counter, meter (value: 0 green, 1 yellow, 2 red), log,
    assertion failed; of the last two `name` is the text.
    """

    kind: str
    name: str
    index: int = 0
    value: int = 0


@dataclass(frozen=True, slots=True)
class KeyValue:
    """A field of a table's key, and what the entry that was hit has there ("" on a miss)."""

    name: str
    match: str
    bits: int
    value: int
    entry: str


@dataclass(frozen=True, slots=True)
class Step:
    """Something that happened."""


@dataclass(frozen=True, slots=True)
class Ingress(Step):
    """The packet enters the parser."""

    at_ps: int
    port: int


@dataclass(frozen=True, slots=True)
class State(Step):
    """A parser state, and what it extracted and set."""

    name: str
    effects: Effects = Effects()


@dataclass(frozen=True, slots=True)
class Parsed(Step):
    """The parser is done: bytes taken, its error by name, whether a checksum is wrong."""

    consumed: int
    error: str
    checksum_error: bool


@dataclass(frozen=True, slots=True)
class Condition(Step):
    """An `if` of a control; `where` is FILE:LINE, "" when the program does not say."""

    text: str
    where: str
    value: bool


@dataclass(frozen=True, slots=True)
class Lookup(Step):
    """A table was applied. `action` is None when nothing ran; `priority` is 0 but for entries
    that have one; `from_group`: a member was selected by hash."""

    table: str
    key: tuple[KeyValue, ...]
    hit: bool
    priority: int
    action: str | None
    params: tuple[Value, ...]
    from_group: bool
    uses: tuple[Use, ...] = ()
    effects: Effects = Effects()


@dataclass(frozen=True, slots=True)
class Call(Step):
    """Statements or an action called without a table; `text` is the first statement."""

    action: str
    where: str
    text: str
    uses: tuple[Use, ...] = ()
    effects: Effects = Effects()


@dataclass(frozen=True, slots=True)
class Clone(Step):
    """`kind` is ingress or egress; without the session there is no clone."""

    kind: str
    session: int
    known: bool


@dataclass(frozen=True, slots=True)
class Replicate(Step):
    """A multicast group with `copies` replicas; this branch goes on as the last of them."""

    group: int
    copies: int


@dataclass(frozen=True, slots=True)
class Digest(Step):
    """A message for the controller."""

    name: str


@dataclass(frozen=True, slots=True)
class Enqueue(Step):
    """`depth` is what P4 sees (enq_qdepth); `packets` and `bytes` are in front of it."""

    at_ps: int
    port: int
    priority: int
    depth: int
    packets: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Egress(Step):
    """Taken off its queue for egress; `depth` is deq_qdepth."""

    at_ps: int
    port: int
    priority: int
    depth: int
    waited_ps: int


@dataclass(frozen=True, slots=True)
class Deparsed(Step):
    """Headers are written, checksums updated before; `length` is the packet's."""

    header_bytes: int
    length: int
    effects: Effects = Effects()


@dataclass(frozen=True, slots=True)
class End(Step):
    """`why` explains a drop; for a packet sent `at_ps` is when its last bit has arrived."""

    outcome: Outcome
    at_ps: int
    port: int
    length: int
    why: str


STEPS: dict[str, type[Step]] = {
    step.__name__.lower(): step
    for step in (
        Ingress, State, Parsed, Condition, Lookup, Call, Clone, Replicate, Digest, Enqueue,
        Egress, Deparsed, End,
    )
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Branch:
    """`number` counts from 0 within the packet; `parent` is the branch it comes from.

    `origin`: received, ingress clone, egress clone, replica, resubmitted, recirculated, or
    duplicate (which the link made).
    """

    number: int
    origin: str
    parent: int | None
    steps: tuple[Step, ...]

    @property
    def outcome(self) -> Outcome:
        """How it ended."""
        last = self.steps[-1] if self.steps else None
        return last.outcome if isinstance(last, End) else Outcome.UNFINISHED

    @property
    def end(self) -> End | None:
        """The last step, when it has ended."""
        last = self.steps[-1] if self.steps else None
        return last if isinstance(last, End) else None


@dataclass(frozen=True, slots=True)
class PacketTrace:
    """A received packet. `data`: its first bytes (up to 512); `whole`: no record was lost."""

    number: int
    at_ps: int
    port: int
    length: int
    data: bytes
    branches: tuple[Branch, ...]
    whole: bool = True

    @property
    def finished(self) -> bool:
        """Whether everything made of it has come to an end."""
        return all(branch.end is not None for branch in self.branches)

    @property
    def steps(self) -> Iterator[Step]:
        """All steps, branch by branch."""
        for branch in self.branches:
            yield from branch.steps

    def lookups(self, table: str | None = None) -> list[Lookup]:
        """Return the tables that were applied.

        `table`: only those of this name (or ending in `.NAME`).
        """
        return [
            step
            for step in self.steps
            if isinstance(step, Lookup)
            and (table is None or step.table == table or step.table.endswith("." + table))
        ]

    @property
    def outcomes(self) -> list[Outcome]:
        """How each branch ended."""
        return [branch.outcome for branch in self.branches]

    # --- JSON ---------------------------------------------------------------------------------

    def to_json(self) -> dict[str, Any]:
        """Return an object of JSON's types; bytes as hexadecimal digits."""
        return {
            "number": self.number,
            "at_ps": self.at_ps,
            "port": self.port,
            "length": self.length,
            "data": self.data.hex(),
            "whole": self.whole,
            "branches": [
                {
                    "number": branch.number,
                    "origin": branch.origin,
                    "parent": branch.parent,
                    "steps": [
                        {"step": type(step).__name__.lower(), **_plain(step)}
                        for step in branch.steps
                    ],
                }
                for branch in self.branches
            ],
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> PacketTrace:
        """Restore a trace from `to_json`.

        Raises KeyError, TypeError, ValueError for anything else.
        """
        branches = tuple(
            Branch(b["number"], b["origin"], b["parent"], tuple(_step(s) for s in b["steps"]))
            for b in data["branches"]
        )
        return cls(
            data["number"],
            data["at_ps"],
            data["port"],
            data["length"],
            bytes.fromhex(data["data"]),
            branches,
            data["whole"],
        )


_NAMES: dict[type, tuple[str, ...]] = {}


def _plain(record: Any) -> dict[str, Any]:
    """Return what `dataclasses.asdict` does, several times as fast: a trace has hundreds of
    records.
    """
    kind = type(record)
    names = _NAMES.get(kind)
    if names is None:
        names = _NAMES[kind] = tuple(field.name for field in fields(kind))
    plain = {}
    for name in names:
        value = getattr(record, name)
        if type(value) is tuple:
            value = [item if isinstance(item, str) else _plain(item) for item in value]
        elif type(value) is Effects:
            value = _plain(value)
        plain[name] = value
    return plain


def _step(data: dict[str, Any]) -> Step:
    kind = STEPS[data["step"]]
    values = {field.name: data[field.name] for field in fields(kind)}
    if "key" in values:
        values["key"] = tuple(KeyValue(**item) for item in values["key"])
    if "params" in values:
        values["params"] = tuple(Value(**item) for item in values["params"])
    if "uses" in values:
        values["uses"] = tuple(Use(**item) for item in values["uses"])
    if "effects" in values:
        values["effects"] = _effects(values["effects"])
    if "outcome" in values:
        values["outcome"] = Outcome(values["outcome"])
    return kind(**values)


def _effects(data: dict[str, Any]) -> Effects:
    return Effects(
        tuple(
            HeaderValue(item["name"], tuple(Value(**value) for value in item["fields"]))
            for item in data["added"]
        ),
        tuple(data["removed"]),
        tuple(Change(**item) for item in data["changes"]),
    )
