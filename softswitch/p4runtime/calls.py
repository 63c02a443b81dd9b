"""Calls as gRPC sees them: requests that can't be read, and errors as statuses that say why."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NoReturn

import grpc
from google.protobuf.message import DecodeError, Message

from softswitch.client_tls import MAX_METADATA_BYTES, USER_AGENT
from softswitch.p4runtime.reconcile import ReconcileError
from softswitch.p4runtime.status import (
    DETAIL_BYTES,
    Code,
    EntityError,
    ReadError,
    WriteError,
    batch_status,
    batch_text,
    refusal_status,
)

LOG = logging.getLogger("softswitch")

_CODES = {code.value[0]: code for code in grpc.StatusCode}
_DETAILS = "grpc-status-details-bin"


@dataclass(frozen=True, slots=True)
class Unreadable:
    """Stands for a request whose bytes are no message of its type."""

    wanted: str

    @property
    def error(self) -> EntityError:
        """The error to report to the client."""
        return EntityError(Code.INVALID_ARGUMENT, f"the request is no {self.wanted}")


def reader(of: type[Message]) -> Callable[[bytes], Message | Unreadable]:
    """Return a deserializer that never raises: gRPC keeps memory of each call whose one did."""

    def read(data: bytes) -> Message | Unreadable:
        try:
            return of.FromString(data)
        except DecodeError:
            return Unreadable(of.DESCRIPTOR.full_name)

    return read


def readable(call: Callable[..., Any]) -> Callable[..., Any]:
    """Return `call`, a servicer's method, with INVALID_ARGUMENT for requests that can't be read."""

    def answer(request: Message | Unreadable, context: grpc.ServicerContext) -> Any:
        if isinstance(request, Unreadable):
            abort(context, request.error)
        return call(request, context)

    return answer


@contextmanager
def answers(context: grpc.ServicerContext, call: str) -> Iterator[None]:
    """Turn errors inside the block into statuses of `call`; unexpected ones are logged."""
    try:
        yield
    except (WriteError, ReadError) as error:
        abort_batch(context, error)
    except EntityError as error:
        abort(context, error)
    except Exception as error:
        LOG.exception("P4Runtime's %s failed in a way that it must not", call)
        why = f"{call} failed inside of the switch, whose log says where: {error!r}"
        context.abort(grpc.StatusCode.INTERNAL, why[:1000])


def abort(context: grpc.ServicerContext, error: EntityError) -> NoReturn:
    """End a call with one code and message."""
    if isinstance(error, ReconcileError):
        status = refusal_status(error.code, error.message, error.statuses)
        context.set_trailing_metadata(((_DETAILS, status.SerializeToString()),))
    context.abort(_CODES[int(error.code)], error.message)
    raise AssertionError("abort always raises")


def _details_taken(context: grpc.ServicerContext) -> int:
    """Return how many bytes of details the client takes."""
    for key, value in context.invocation_metadata():
        if key == "user-agent" and str(value).startswith(USER_AGENT):
            return MAX_METADATA_BYTES // 2  # in base 64, and beside other metadata
    return DETAIL_BYTES


def abort_batch(context: grpc.ServicerContext, error: WriteError | ReadError) -> NoReturn:
    """End a call with one status per update or entity."""
    status = batch_status(error.statuses, _details_taken(context))
    context.set_trailing_metadata(((_DETAILS, status.SerializeToString()),))
    context.abort(grpc.StatusCode.UNKNOWN, batch_text(error.statuses))
    raise AssertionError("abort always raises")
