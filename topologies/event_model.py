"""What happens to links while a topology runs, in fabric time: elementary events, links by index.

A flap is several of these, and what lasts for a while is two.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Do(enum.Enum):
    """What an event does to its links.

    CLEAR: everything is as the file says again. SET: other settings, from then on. KILL, REVIVE:
    the switch that they belong to ends, with all that it knows, and is started again. DRAIN,
    UNDRAIN: their hosts send nothing new by them, and again.
    """

    DOWN = "down"
    UP = "up"
    CLEAR = "clear"
    SET = "set"
    KILL = "kill"
    REVIVE = "revive"
    DRAIN = "drain"
    UNDRAIN = "undrain"


@dataclass(frozen=True)
class Event:
    """One change, `at_ps` after the start (fabric time).

    `links` count in the topology's order. `towards`: the node whose arrivals a SET concerns, empty
    for both directions. `settings`, of a SET: `rate_bps`, `delay_ps` and members of the switch's
    ws_port_impair (shares in units of 2^-32, of bits 2^-64; times in fabric picoseconds).
    `says` is the event as people read it. `switch`: of a KILL or REVIVE; `links` are then its own.
    """

    at_ps: int
    do: Do
    links: tuple[int, ...]
    says: str
    towards: str = ""
    settings: tuple[tuple[str, int], ...] = ()
    switch: str = ""
