"""Which exceptions are messages for the user: those of classes that are made in Weft's packages."""

from __future__ import annotations

_OUR_PACKAGES = frozenset(
    {"weft", "labs", "emulation", "simulator", "controller", "hostagent", "topologies"}
    | {"compat", "experiments", "observe", "mechanisms", "workloads"}
    | {"softswitch", "compiler", "protocols"}
)


def is_ours(error: BaseException) -> bool:
    """Say whether an exception is a message for the user; any other one is a bug."""
    return any(kind.__module__.partition(".")[0] in _OUR_PACKAGES for kind in type(error).__mro__)
