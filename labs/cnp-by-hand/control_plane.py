"""The lab's control plane: what it writes into the switch before packets come.

    source 1 --- port ---+--------+
                         | switch |--- slow port --- sink
    source 2 --- port ---+--------+

Routes to the three hosts, the clone session, which ports are watched, and whose queue pair sends to
which queue pair: a control plane knows that, because it saw the connections being made.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import NamedTuple

from softswitch.p4runtime.names import Names
from softswitch.p4runtime.protos import p4r

CLONE_SESSION = 1
RECIRCULATION_PORT = 510
"""A port without a link: what waits there waits for nothing."""

CELL_BYTES = 256
WATCHED = 0x7FFFF


class Host(NamedTuple):
    """A host, and the switch's port to it."""

    ip: int
    mac: int
    port: int


class Connection(NamedTuple):
    """A queue pair of a source, and the sink's that it sends to."""

    source: Host
    source_qp: int
    sink: Host
    sink_qp: int
    udp_port: int


@dataclass(frozen=True)
class Setup:
    """Everything that the switch is told. `threshold`: cells (BMv2: packets); `interval`: us."""

    sources: tuple[Host, Host]
    sink: Host
    router_mac: int
    threshold: int
    interval: int
    switch_id: int
    rate: int
    validity: int
    connections: Sequence[Connection] = ()
    watched: tuple[int, ...] = field(default=())

    @property
    def hosts(self) -> tuple[Host, ...]:
        """All three."""
        return (*self.sources, self.sink)


def random_setup(random: Random) -> Setup:
    """Draw hosts, ports and numbers."""
    ports = random.sample(range(1, 200), 3)
    subnets = random.sample(range(1, 255), 3)
    macs = random.sample(range(1, 1 << 32), 4)
    hosts = [
        Host(10 << 24 | subnet << 8 | random.randrange(1, 250), 0x0200 << 32 | mac, port)
        for subnet, mac, port in zip(subnets, macs, ports, strict=False)
    ]
    return Setup(
        sources=(hosts[0], hosts[1]),
        sink=hosts[2],
        router_mac=0x0200 << 32 | macs[3],
        threshold=random.randrange(20, 60),
        interval=random.randrange(60, 140),
        switch_id=random.randrange(1, 1 << 16),
        rate=random.randrange(1, 1 << 16),
        validity=random.randrange(1, 16),
        watched=(hosts[2].port,),
    )


def random_connections(random: Random, setup: Setup, count: int) -> list[Connection]:
    """Draw connections of the first source with the sink; all numbers differ."""
    source_qps = random.sample(range(2, 1 << 24), count)
    sink_qps = random.sample(range(2, 1 << 24), count)
    udp_ports = random.sample(range(0xC000, 0x10000), count)
    rows = zip(source_qps, sink_qps, udp_ports, strict=True)
    return [Connection(setup.sources[0], a, setup.sink, b, port) for a, b, port in rows]


def updates(names: Names, setup: Setup) -> list[p4r.Update]:
    """Return what is written, in order. Raises UnknownName if the program lacks a table."""
    session = p4r.CloneSessionEntry(
        session_id=CLONE_SESSION,
        replicas=[p4r.Replica(egress_port=RECIRCULATION_PORT, instance=1)],
    )
    replication = p4r.PacketReplicationEngineEntry(clone_session_entry=session)
    insert = [p4r.Entity(packet_replication_engine_entry=replication)]
    insert += [p4r.Entity(table_entry=entry) for entry in _entries(names, setup)]
    identity = {
        "switch_id": setup.switch_id,
        "rate": setup.rate,
        "validity": setup.validity,
    }
    default = names.entry("identity", None, "be", identity)
    return [
        *(p4r.Update(type=p4r.Update.INSERT, entity=entity) for entity in insert),
        p4r.Update(type=p4r.Update.MODIFY, entity=p4r.Entity(table_entry=default)),
    ]


def _entries(names: Names, setup: Setup) -> Iterator[p4r.TableEntry]:
    for host in setup.hosts:
        forward: Mapping[str, int] = {
            "port": host.port,
            "src_mac": setup.router_mac,
            "dst_mac": host.mac,
        }
        yield names.entry("route", {"dst": host.ip}, "forward", forward)
    for port in setup.watched:
        limits = {"threshold": setup.threshold, "interval": setup.interval}
        yield names.entry("congestion", {"port": port}, "watch", limits)
    for each in setup.connections:
        key = {"destination": each.sink.ip, "qp": each.sink_qp}
        yield names.entry("source_qp", key, "source_is", {"qp": each.source_qp})
