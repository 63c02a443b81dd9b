"""The entries that a switch with the learner's program gets: routes, and thresholds by port."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Address

from labs.p4_switch import Hop, Row, forward

ONE = 1 << 24
"""Certainty, in the units of `step`."""


@dataclass(frozen=True)
class Marking:
    """Thresholds in packets, and what each packet above kmin adds to the probability, of ONE."""

    kmin: int
    kmax: int
    step: int = 0

    @classmethod
    def red(cls, kmin: int, kmax: int, most: float) -> Marking:
        """Return thresholds between which the probability grows to `most`."""
        return cls(kmin, kmax, round(most * ONE / max(1, kmax - kmin)))

    def probability(self, depth: int) -> float:
        """Return how likely a packet is marked that leaves so many behind."""
        if depth > self.kmax:
            return 1.0
        return min(1.0, max(0, depth - self.kmin) * self.step / ONE)


@dataclass(frozen=True)
class Router:
    """A switch: its MAC address, next hops by address, thresholds by port."""

    mac: int
    hosts: Mapping[int, Hop]
    marking: Mapping[int, Marking] = field(default_factory=dict)


def rows(router: Router) -> list[Row]:
    """Return all entries of a switch."""
    routes = [
        Row("route", (("dst", (address, 32)),), "forward", forward(router.mac, hop))
        for address, hop in router.hosts.items()
    ]
    marks = [
        Row("marking", (("port", port),), "set_marking",
            (("kmin", each.kmin), ("kmax", each.kmax), ("step", each.step)))
        for port, each in router.marking.items()
    ]  # fmt: skip
    return routes + marks


def address(text: str) -> int:
    """Return an IPv4 address as a number."""
    return int(IPv4Address(text))
