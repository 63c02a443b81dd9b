"""How much more a tier takes from below than it can pass on upwards.

    ratio = rate of all links down / rate of all links up, of one switch

At 1:1 or less every host can send at line rate to hosts behind other switches, as far as hashing
allows. Links between switches of one tier count as up: they too lead away from the hosts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from topologies.model import Role, Topology

HEIGHT = {Role.LEAF: 1, Role.SPINE: 2, Role.CORE: 3, Role.BORDER: 3}


@dataclass(frozen=True)
class Tier:
    """The switches of one role that have links both ways, and the worst ratio among them."""

    role: Role
    ratio: Fraction
    worst: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.role.value} {ratio_text(self.ratio)}"


def ratio_text(ratio: Fraction) -> str:
    """Return a ratio as people write it: 2:1, 1.33:1, 1:2."""
    if ratio >= 1:
        return f"{_short(ratio)}:1"
    return f"1:{_short(1 / ratio)}"


def _short(value: Fraction) -> str:
    return f"{float(value):.2f}".rstrip("0").rstrip(".")


def switch_ratio(topology: Topology, name: str) -> Fraction | None:
    """Return a switch's ratio, None where all its links lead the same way."""
    height = HEIGHT[topology.switch(name).role]
    down = up = 0
    for port in topology.ports_of(name):
        peer = port.peer.node
        is_down = not topology.is_switch(peer) or HEIGHT[topology.switch(peer).role] < height
        down += port.link.rate_bps if is_down else 0
        up += 0 if is_down else port.link.rate_bps
    return Fraction(down, up) if down and up else None


def tiers(topology: Topology) -> Iterator[Tier]:
    """Yield each role that has a ratio, from the leaves up."""
    for role in Role:
        ratios = {
            switch.name: ratio
            for switch in topology.switches_with(role)
            if (ratio := switch_ratio(topology, switch.name)) is not None
        }
        if ratios:
            worst = max(ratios.values())
            yield Tier(role, worst, tuple(name for name, r in ratios.items() if r == worst))


@dataclass(frozen=True)
class LongHaul:
    """What the hosts of a group could send together, and what its links to other groups carry."""

    group: str
    hosts_bps: int
    out_bps: int

    @property
    def ratio(self) -> Fraction:
        """Hosts' rate over that of the links out."""
        return Fraction(self.hosts_bps, self.out_bps)


def long_hauls(topology: Topology) -> Iterator[LongHaul]:
    """Yield each data centre: a group whose border switches have links to other groups."""
    group_of = {switch.name: switch.group for switch in topology.switches}
    out: dict[str, int] = {}
    for border in topology.switches_with(Role.BORDER):
        for port in topology.ports_of(border.name):
            if group_of.get(port.peer.node, border.group) != border.group:
                out[border.group] = out.get(border.group, 0) + port.link.rate_bps
    for group, out_bps in out.items():
        hosts = [host.name for host in topology.hosts if host.group == group]
        rate = sum(port.link.rate_bps for name in hosts for port in topology.ports_of(name))
        if rate:
            yield LongHaul(group, rate, out_bps)
