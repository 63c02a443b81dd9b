"""Which interfaces of their hosts queue pairs use, as options say it: `--interfaces all`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from observe.errors import UsageError
from topologies.units import parse_duration


@dataclass(frozen=True)
class Ways:
    """`interfaces` "all": a queue pair uses all that both hosts have; `failover`: as planes.

    `reorder`: by how much its packets may overtake each other, as a run file says it.
    """

    interfaces: str = "one"
    reorder: str | None = None
    failover: bool = False

    def keys(self) -> dict[str, Any]:
        """Return it in the keys of a run file's `transport:`; nothing if nothing was asked for."""
        interfaces = {} if self.interfaces == "one" else {"interfaces": self.interfaces}
        reorder = {} if self.reorder is None else {"reorder": self.reorder}
        failover = {"failover": True} if self.failover else {}
        return {**interfaces, **reorder, **failover}

    def check(self) -> None:
        """Raise UsageError for planes of one interface, and a time that is none."""
        duration_of("--reorder", self.reorder)
        if self.failover and self.interfaces == "one":
            raise UsageError("--failover is of queue pairs over all interfaces: --interfaces all")


def duration_of(option: str, text: str | None) -> int | None:
    """Return the picoseconds that an option says; None without it. Raises UsageError."""
    if text is None:
        return None
    try:
        duration = parse_duration(text)
    except ValueError as error:
        raise UsageError(f"{option} {text}: {error}") from None
    if duration <= 0:
        raise UsageError(f"{option} {text}: has to be more than nothing")
    return duration
