"""What a worker has to know of its job, and what is wrong with it."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from typing import Protocol

from hostagent.collective.handle import CollectiveError

RANKS_MOST = 1 << 20
_JOB_MOST = 0xFFFF


class Settings(Protocol):
    """What a worker has to know of its job; `mechanisms` makes these from a topology."""

    @property
    def job(self) -> int:
        """The job's number on the wire."""

    @property
    def rank(self) -> int:
        """This worker's, from 0 on."""

    @property
    def ranks(self) -> int:
        """How many workers there are."""

    @property
    def epoch(self) -> int:
        """Where this start of the job begins: 64 times the number of starts before it."""

    @property
    def slots(self) -> int:
        """The job's slots, a power of two."""

    @property
    def lanes(self) -> int:
        """Values of a packet that switches add up."""

    @property
    def wire_lanes(self) -> int:
        """Values that a packet is long, `lanes` at least; 0: as many."""

    @property
    def dscp(self) -> int:
        """The class of its packets."""

    @property
    def best_effort(self) -> int:
        """1: a parameter server completes the sums, and there are no other trees."""


@dataclass(frozen=True)
class WorkerSettings:
    """A worker of a job, where no topology says so (`Settings` has what each means)."""

    job: int
    rank: int
    ranks: int
    epoch: int
    slots: int
    lanes: int
    wire_lanes: int = 0
    dscp: int = 0
    best_effort: int = 0


def address_number(text: str, what: str) -> int:
    try:
        return int(ipaddress.IPv4Address(text))
    except ValueError:
        raise CollectiveError(f"{what}: {text!r} is no IPv4 address") from None


def check(
    settings: Settings,
    timeout_s: float,
    give_up_s: float,
    window: int | None,
    patience: int,
    block_rate_bps: int,
) -> None:
    """Raise CollectiveError for what C's types can't hold; what the worker says comes later."""
    limits = (
        ("job", settings.job, 0, _JOB_MOST),
        ("ranks", settings.ranks, 1, RANKS_MOST),
        ("rank", settings.rank, 0, settings.ranks - 1),
        ("epoch", settings.epoch, 0, 1 << 62),
        ("slots", settings.slots, 1, 1 << 15),
        ("lanes", settings.lanes, 1, 1 << 15),
        ("wire_lanes", settings.wire_lanes, 0, 1 << 15),
        ("dscp", settings.dscp, 0, 63),
        ("window", 1 if window is None else window, 1, settings.slots),
        ("patience", patience, 0, 1 << 20),
        ("block_rate_bps", block_rate_bps, 0, 1 << 50),
        ("timeout_s", timeout_s, 1e-6, 1000),
        ("give_up_s", give_up_s, 1e-3, 1e9),
    )
    for name, value, least, most in limits:
        if not least <= value <= most:
            raise CollectiveError(f"{name}: {value} is not between {least} and {most}")
