"""The typed topology that the rest of Weft works with.

Rates are bits per second, times picoseconds, sizes bytes, all in fabric time. The `real_*`
methods are the one place where `time_scale` is applied: real durations are fabric
durations times the scale, real rates are fabric rates divided by it, bytes stay.
"""

from __future__ import annotations

import enum
import ipaddress
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from topologies.event_model import Event
from topologies.extensions import NOTHING_SAID, Settings
from topologies.own_program import NOTHING_OWN, OwnProgram
from topologies.tickers import Ticker, TickerRule

PS_PER_NS = 1000
PS_PER_METRE = 5000  # light in glass: 5 us a kilometre
DEFAULT_MTU = 1500
RECIRCULATION_PS = 1_000_000  # from a switch's egress back into its ingress, without waiting
CNP_DSCP = 48  # of RoCEv2 congestion notification packets, by custom


class Role(enum.Enum):
    """What a switch does in the fabric.

    Hosts hang on leaves, spines join leaves, cores join the pods of a three-tier fabric, and
    borders join data centres.
    """

    LEAF = "leaf"
    SPINE = "spine"
    CORE = "core"
    BORDER = "border"


@dataclass(frozen=True, order=True)
class Endpoint:
    """One end of a link: a node and its port.

    A switch's ports count from 1, a host's interfaces from 0; the first is written as the host.
    """

    node: str
    port: int

    def __str__(self) -> str:
        return f"{self.node}:{self.port}" if self.port else self.node


@dataclass(frozen=True)
class Switch:
    """A switch. `device_id`: P4Runtime's, from 1 unless given; `gateway`: of switches with hosts.

    `group` is the pod, plane, rail group or data centre that it belongs to, if any. `latency_ps`:
    what a packet takes through it, beside waiting and its time on the wire.
    """

    name: str
    role: Role
    device_id: int
    mac: str
    gateway: ipaddress.IPv4Interface | None
    group: str = ""
    latency_ps: int = 0


@dataclass(frozen=True)
class Interface:
    """A host's interface number `number` (from 0), attached to `switch` at `port`."""

    host: str
    number: int
    address: ipaddress.IPv4Interface
    mac: str
    gateway: ipaddress.IPv4Address
    switch: str
    port: int

    @property
    def end(self) -> Endpoint:
        """The interface as the end of its link; its text is `h1`, or `h1:1` for the second."""
        return Endpoint(self.host, self.number)


@dataclass(frozen=True)
class Host:
    """A host with one interface or several, in their order.

    `address`, `mac`, `gateway`, `switch` and `port` are those of the first one.
    """

    name: str
    interfaces: tuple[Interface, ...]
    group: str = ""

    @property
    def address(self) -> ipaddress.IPv4Interface:
        """The first interface's address."""
        return self.interfaces[0].address

    @property
    def mac(self) -> str:
        """The first interface's MAC address."""
        return self.interfaces[0].mac

    @property
    def gateway(self) -> ipaddress.IPv4Address:
        """The first interface's gateway."""
        return self.interfaces[0].gateway

    @property
    def switch(self) -> str:
        """The switch that the first interface is attached to."""
        return self.interfaces[0].switch

    @property
    def port(self) -> int:
        """The port of `switch` that the first interface is attached to."""
        return self.interfaces[0].port


@dataclass(frozen=True)
class Link:
    """A full-duplex link; `queue_bytes` is the queue in front of each direction.

    `mtu_bytes` is the largest IP packet that its two ends agree on.
    """

    a: Endpoint
    b: Endpoint
    rate_bps: int
    delay_ps: int
    queue_bytes: int
    mtu_bytes: int = DEFAULT_MTU

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
class TrafficClass:
    """Packets that share a queue: those with these DSCPs.

    `queue` is the ports' queue that serves them, None where the file names none; the highest is
    served first. `lossless` says that senders are paused rather than packets dropped. Queues with
    a `weight` share by it what strict ones (None) leave. `settings`: of mechanisms for
    the class, by the keys of the file (`topologies.extensions`).
    """

    name: str
    dscps: tuple[int, ...]
    queue: int | None
    lossless: bool = False
    weight: int | None = None
    settings: Settings = NOTHING_SAID

    def setting(self, key: str) -> Any:
        """Return a mechanism's setting of a key; None where the file has none."""
        return self.settings.get(key)


@dataclass(frozen=True)
class Topology:
    """A whole network. Order of `switches`, `hosts`, `links` and `classes` is the file's.

    `events` are in order of time. `stock_nics`: hosts whose cards know plain CNPs only.
    `settings`: of mechanisms, by the keys of the file (`topologies.extensions`).
    """

    name: str
    switches: tuple[Switch, ...]
    hosts: tuple[Host, ...]
    links: tuple[Link, ...]
    time_scale: int
    description: str = ""
    classes: tuple[TrafficClass, ...] = ()
    events: tuple[Event, ...] = ()
    stock_nics: frozenset[str] = frozenset()
    settings: Settings = NOTHING_SAID
    tickers: tuple[TickerRule, ...] = ()
    own: OwnProgram = NOTHING_OWN

    def setting(self, key: str) -> Any:
        """Return a mechanism's setting of a key of the file; None where it has none."""
        return self.settings.get(key)

    @cached_property
    def _switch_index(self) -> dict[str, Switch]:
        return {switch.name: switch for switch in self.switches}

    @cached_property
    def _host_index(self) -> dict[str, Host]:
        return {host.name: host for host in self.hosts}

    @cached_property
    def _link_index(self) -> dict[Endpoint, Link]:
        return {end: link for link in self.links for end in (link.a, link.b)}

    @cached_property
    def queue_weights(self) -> tuple[tuple[int, int], ...]:
        """The queues that share what strict ones leave, as (queue, weight), by queue."""
        found = {c.queue: c.weight for c in self.classes if c.queue is not None and c.weight}
        return tuple(sorted(found.items()))

    @cached_property
    def _port_index(self) -> dict[str, tuple[Port, ...]]:
        ports: dict[str, list[Port]] = {}
        for end, link in self._link_index.items():
            ports.setdefault(end.node, []).append(Port(end.port, link, link.other(end)))
        return {
            node: tuple(sorted(found, key=lambda port: port.number))
            for node, found in ports.items()
        }

    @cached_property
    def _attached(self) -> dict[str, tuple[Interface, ...]]:
        attached: dict[str, list[Interface]] = {}
        for host in self.hosts:
            for interface in host.interfaces:
                attached.setdefault(interface.switch, []).append(interface)
        return {switch: tuple(found) for switch, found in attached.items()}

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

    def interface(self, end: Endpoint) -> Interface:
        """Return the host interface at a link's end. Raises KeyError, IndexError."""
        return self.host(end.node).interfaces[end.port]

    def interfaces(self) -> Iterator[Interface]:
        """Yield every interface of every host, host by host."""
        return (interface for host in self.hosts for interface in host.interfaces)

    def ports_of(self, node: str) -> tuple[Port, ...]:
        """Return the ports in use of a switch (or the interfaces of a host), by number."""
        return self._port_index.get(node, ())

    def peer(self, switch: str, port: int) -> Endpoint:
        """Return what is at the far end of a port. Raises KeyError for an unused port."""
        end = Endpoint(switch, port)
        return self._link_index[end].other(end)

    def interfaces_of(self, switch: str) -> tuple[Interface, ...]:
        """Return the host interfaces attached to a switch, in the file's order of hosts."""
        return self._attached.get(switch, ())

    def hosts_of(self, switch: str) -> tuple[Host, ...]:
        """Return the hosts with an interface at a switch, in the file's order."""
        names = dict.fromkeys(interface.host for interface in self.interfaces_of(switch))
        return tuple(self.host(name) for name in names)

    def tickers_of(self, switch: str) -> tuple[Ticker, ...]:
        """Return the tickers that the file gives a switch (`mechanisms.tickers` has all)."""
        return tuple(
            rule.ticker for rule in self.tickers if not rule.switches or switch in rule.switches
        )

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

    def latency_ps(self, node: str) -> int:
        """Return a switch's latency in fabric picoseconds; a host has none."""
        return self.switch(node).latency_ps if self.is_switch(node) else 0

    def delay_from(self, node: str, link: Link) -> int:
        """Return how long what `node` sends is on its way to the far end, in fabric picoseconds.

        A switch's latency counts as a part of the way out: queues stand before it, the wire behind.
        """
        return link.delay_ps + self.latency_ps(node)

    def there_and_back_ps(self, link: Link) -> int:
        """Return both directions' delay of a link, in fabric picoseconds."""
        return self.delay_from(link.a.node, link) + self.delay_from(link.b.node, link)

    def real_delay_ns(self, link: Link) -> int:
        """Return a link's propagation delay on this machine, in real nanoseconds."""
        return self.real_duration_ns(link.delay_ps)

    def real_duration_ns(self, fabric_ps: int) -> int:
        """Scale a duration in fabric picoseconds to real nanoseconds, rounded to the nearest."""
        return (fabric_ps * self.time_scale + PS_PER_NS // 2) // PS_PER_NS
