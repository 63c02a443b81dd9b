"""The core's error codes as P4Runtime's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from softswitch.core import CoreError
from softswitch.p4runtime.status import Code, EntityError

_CODES = {
    -1: Code.NOT_FOUND,
    -2: Code.ALREADY_EXISTS,
    -3: Code.RESOURCE_EXHAUSTED,
    -4: Code.INVALID_ARGUMENT,
    -5: Code.FAILED_PRECONDITION,
    -6: Code.RESOURCE_EXHAUSTED,
    -8: Code.PERMISSION_DENIED,
}


def entity_error(error: CoreError, what: str) -> EntityError:
    """Return what P4Runtime says of an error of the core about `what`."""
    return EntityError(_CODES.get(error.code, Code.INTERNAL), f"{what}: {error}")


@contextmanager
def core_errors(what: str) -> Iterator[None]:
    """Turn the core's errors inside the block into EntityErrors about `what`."""
    try:
        yield
    except CoreError as error:
        raise entity_error(error, what) from error
