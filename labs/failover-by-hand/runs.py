"""The four stories that are graded and that the lab runs: what befalls plane 1, and when."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from random import Random

from hostagent.own_algorithm import Built

from .network import MS, US, Network, Story
from .plane import Fields

GBPS = 10**9
NS_PER_MS = 1_000_000
FULL_FROM = MS // 2
"""From here on both planes are full."""


def fields_of(rate_bps: int, **given: int) -> Fields:
    """Return the header's parameters in all runs."""
    fields = {
        "line_rate": rate_bps,
        "min_rate": rate_bps // 1000,
        "hold_ns": 10 * NS_PER_MS,
        "hold_most_ns": 10_000 * NS_PER_MS,
        "stable_ns": 2_000 * NS_PER_MS,
        "ramp_ns": NS_PER_MS,
        "answers": 5,
    }
    return {**fields, **given}


@dataclass(frozen=True)
class Tale:
    """A story that can be run: `rate_bps` of each plane, from `first` to `last` plane 1 is bad."""

    name: str
    rate_bps: int
    first: int
    last: int
    until: int
    befalls: Callable[[Network, Tale], None]
    answers: int = 5

    def drawn(self, seed: int) -> Tale:
        """Return it up to a millisecond later, as the seed draws it."""
        late = Random(seed).randrange(MS)
        first, last, until = (at + late for at in (self.first, self.last, self.until))
        return replace(self, first=first, last=last, until=until)

    def play(self, built: Built, *, seed: int = 1, own: Mapping[str, int] | None = None) -> Story:
        """Run it with a header in the sender's card; `own`: other parameters of it."""
        fields = fields_of(self.rate_bps, **{"answers": self.answers, **(own or {})})
        with built.card_in_place():
            network = Network(self.rate_bps, fields, seed=seed)
            try:
                self.befalls(network, self)
                return network.play(self.until)
            finally:
                network.close()


def _cut(network: Network, tale: Tale) -> None:
    network.cut(1, tale.first, tale.last)


FLAP_PS = 50 * MS
"""Down for so long, then up for as long: 10 Hz."""


def _flap(network: Network, tale: Tale) -> None:
    for at in range(tale.first, tale.last, 2 * FLAP_PS):
        network.cut(1, at, at + FLAP_PS)


def _one_way(network: Network, tale: Tale) -> None:
    network.loses = lambda at, is_sender, plane: (
        plane == 1 and not is_sender and tale.first <= at < tale.last
    )


LOSS = 0.5


def _lossy(network: Network, tale: Tale) -> None:
    """Cut for a moment; afterwards it loses half of what it carries, in each direction."""
    network.cut(1, tale.first, tale.first + MS)
    network.loses = lambda at, is_sender, plane: (
        plane == 1 and tale.first < at < tale.last and network.random.random() < LOSS
    )


CUT = Tale("cut", 10 * GBPS, 2 * MS, 6 * MS, 27 * MS, _cut)
"""A plane is cut, and comes back."""
ONE_WAY = Tale("one way", 10 * GBPS, 2 * MS, 9 * MS, 14 * MS, _one_way)
"""Nothing comes back by the plane: neither acknowledgements nor probes' answers."""
FLAPPING = Tale("flapping", GBPS // 10, 20 * MS, 2020 * MS, 2040 * MS, _flap)
LOSSY = Tale("lossy", GBPS // 2, 2 * MS, 150 * MS, 150 * MS, _lossy, answers=8)
"""A plane comes back, and loses half of its packets."""
ALL = (CUT, FLAPPING, ONE_WAY, LOSSY)

AFTER_CUT = (US * 500, MS)
"""Goodput is measured from, to: behind the cut."""
BACK_MS = 20
"""So long after it was mended both planes are to be full again."""
