"""The typed topology that the rest of Weft works with.

Rates are bits per second, times picoseconds, sizes bytes, all in fabric time. The `real_*`
methods are the one place where `time_scale` is applied (DESIGN §2): real durations are fabric
durations times the scale, real rates are fabric rates divided by it, bytes stay.
"""

from __future__ import annotations

import enum
import ipaddress
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

PS_PER_NS = 1000


class Role(enum.Enum):
    """What a switch does in the fabric: hosts hang on leaves, spines join leaves."""

    LEAF = "leaf"
    SPINE = "spine"


@dataclass(frozen=True, order=True)
class Endpoint:
    """One end of a link: a node and its port. A switch's ports count from 1; a host's is 0."""

    node: str
    port: int

    def __str__(self) -> str:
        return f"{self.node}:{self.port}" if self.port else self.node


@dataclass(frozen=True)
class Switch:
    """A switch. `device_id` is P4Runtime's, from 1. `gateway` is set on switches with hosts."""

    name: str
    role: Role
    device_id: int
    mac: str
    gateway: ipaddress.IPv4Interface | None


@dataclass(frozen=True)
class Host:
    """A host with one interface, attached to `switch` at `port`."""

    name: str
    address: ipaddress.IPv4Interface
    mac: str
    gateway: ipaddress.IPv4Address
    switch: str
    port: int


@dataclass(frozen=True)
class Link:
    """A full-duplex link; `queue_bytes` is the queue in front of each direction."""

    a: Endpoint
    b: Endpoint
    rate_bps: int
    delay_ps: int
    queue_bytes: int

    def other(self, end: Endpoint) -> Endpoint:
        """Return the far end as seen from `end`."""
        return self.b if end == self.a else self.a


@dataclass(frozen=True)
class Port:
    """A switch port in use: its number, its link and what is at the far end."""

    number: int
    link: Link
    peer: Endpoint


@dataclass(frozen=True)
class Topology:
    """A whole network. Order of `switches`, `hosts` and `links` is the file's."""

    name: str
    switches: tuple[Switch, ...]
    hosts: tuple[Host, ...]
    links: tuple[Link, ...]
    time_scale: int
    description: str = ""

    @cached_property
    def _switch_index(self) -> dict[str, Switch]:
        return {switch.name: switch for switch in self.switches}

    @cached_property
    def _host_index(self) -> dict[str, Host]:
        return {host.name: host for host in self.hosts}

    @cached_property
    def _link_index(self) -> dict[Endpoint, Link]:
        return {end: link for link in self.links for end in (link.a, link.b)}

    def switch(self, name: str) -> Switch:
        """Return the switch called `name`. Raises KeyError."""
        return self._switch_index[name]

    def host(self, name: str) -> Host:
        """Return the host called `name`. Raises KeyError."""
        return self._host_index[name]

    def is_switch(self, name: str) -> bool:
        """Say whether `name` is a switch (else it is a host, or unknown)."""
        return name in self._switch_index

    def link_at(self, node: str, port: int = 0) -> Link:
        """Return the link at a node's port. Raises KeyError."""
        return self._link_index[Endpoint(node, port)]

    def ports_of(self, switch: str) -> tuple[Port, ...]:
        """Return the ports in use of a switch, by number."""
        ends = sorted(end for end in self._link_index if end.node == switch)
        links = ((end, self._link_index[end]) for end in ends)
        return tuple(Port(end.port, link, link.other(end)) for end, link in links)

    def peer(self, switch: str, port: int) -> Endpoint:
        """Return what is at the far end of a port. Raises KeyError for an unused port."""
        end = Endpoint(switch, port)
        return self._link_index[end].other(end)

    def hosts_of(self, switch: str) -> tuple[Host, ...]:
        """Return the hosts attached to a switch, in the file's order."""
        return tuple(host for host in self.hosts if host.switch == switch)

    def switches_with(self, role: Role) -> Iterator[Switch]:
        """Yield the switches of one role, in the file's order."""
        return (switch for switch in self.switches if switch.role is role)

    def with_time_scale(self, time_scale: int) -> Topology:
        """Return the same network run at another scale (1 in the simulator)."""
        if time_scale < 1:
            raise ValueError(f"time_scale must be at least 1, not {time_scale}")
        return replace(self, time_scale=time_scale)

    def real_rate_bps(self, link: Link) -> int:
        """Return the rate that a link has on this machine, in bits per real second."""
        return max(1, link.rate_bps // self.time_scale)

    def real_delay_ns(self, link: Link) -> int:
        """Return a link's propagation delay on this machine, in real nanoseconds."""
        return self.real_duration_ns(link.delay_ps)

    def real_duration_ns(self, fabric_ps: int) -> int:
        """Scale a duration in fabric picoseconds to real nanoseconds, rounded to the nearest."""
        return (fabric_ps * self.time_scale + PS_PER_NS // 2) // PS_PER_NS
