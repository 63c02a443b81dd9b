"""The paths of flows hop by hop, as the hosts that receive them know it from packets' records.

Switches write into packets where a class has that, and the receiver's endpoint keeps what came last
and sums of it. Endpoints are asked, by their sockets in the run's directory; who may not open them
(root's) gets nothing, and `HopsSeen.problem` says so.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from emulation import run_state
from emulation.fabric_record import FabricRecord
from hostagent.rnic.client import EndpointClient, EndpointGone, RequestRefused
from mechanisms.registry import path_records
from observe.samples import FabricSample
from topologies import Topology

_PATIENCE_S = 1.0
_NS_PER_S = 1_000_000_000
_WRAPS = 1 << 24  # ns, of the times in records

Json = dict[str, Any]


@dataclass(frozen=True)
class HopRow:
    """A hop of a flow's path, of the last packet that came; latencies are the fabric's.

    `queue_pair`: its number at the receiver. `hop` of `hops`, from 1 at the sender. `switch` and
    `port` are empty and 0 where a record names no single port. `latency_ns`: since the packet left
    the queue of the hop before; None at the first that is known, and where the clocks of both
    switches can't be compared. `packets`, `queue_sum`, `since_sum_ns`: since this port stands in
    this place, the times by both switches' own clocks. `mean_queue_bytes`, `mean_latency_ns`: of
    the packets since the look before; None without any. `age_s`: since the last packet, in real
    seconds. `changes`: how often the flow's packets have come by another path.
    """

    source: str
    target: str
    queue_pair: int
    hop: int
    hops: int
    switch: str
    port: int
    rate_bps: int
    queue_bytes: int
    latency_ns: float | None
    packets: int
    queue_sum: int
    since_sum_ns: int
    age_s: float
    changes: int
    mean_queue_bytes: float | None = None
    mean_latency_ns: float | None = None
    apart_ns: float | None = None
    """How much the clock of the hop before is behind this one's, in the fabric's time."""

    @property
    def place(self) -> str:
        """Switch and port, as topology files write it; ? where that is not known."""
        return f"{self.switch}:{self.port}" if self.switch else "?"

    @property
    def key(self) -> tuple[str, str, int, int, str]:
        """What stays the same from look to look."""
        return self.source, self.target, self.queue_pair, self.hop, self.place


@dataclass(frozen=True)
class HopsSeen:
    """All rows at one look, by flow and hop. `problem`: why there are none, empty if nothing is.

    `possible`: the switches of this fabric write records of hops into the packets of some class.
    """

    rows: tuple[HopRow, ...] = ()
    possible: bool = False
    problem: str = ""


NOTHING = HopsSeen()


def hops_seen(record: FabricRecord, sample: FabricSample, before: HopsSeen = NOTHING) -> HopsSeen:
    """Ask a run's endpoints, if switches write for them.

    `sample`: of its switches, whose clocks it compares. `before`: the look before this one.
    """
    topology = record.topology
    ports = path_records(topology)
    if not ports.dscps:
        why = f"switches of {topology.name} write no records of hops into packets"
        return HopsSeen(problem=f"{why}; for a class of service that should: {ports.right}")
    directory = run_state.run_root() / record.run
    sockets = sorted(directory.glob("*.rnic"))
    if any(not os.access(socket, os.W_OK) for socket in sockets):
        why = "hops of flows are known to the hosts' endpoints, which only root may ask: use sudo"
        return HopsSeen(possible=True, problem=why)
    began = {name: each.began_ns for name, each in sample.items() if each.began_ns is not None}
    found = [row for socket in sockets for row in _rows_of(socket, topology, ports.ports, began)]
    found.sort(key=lambda row: (row.source, row.target, row.queue_pair, row.hop))
    return HopsSeen(tuple(with_means(found, before.rows)), possible=True)


def _rows_of(
    socket: Path,
    topology: Topology,
    ports: Mapping[int, tuple[str, int]],
    began: Mapping[str, int],
) -> Sequence[HopRow]:
    try:
        with EndpointClient.connect(socket, 0.0) as client:
            own = client.call("info", timeout_s=_PATIENCE_S)["ip"]
            said = client.call("watch", timeout_s=_PATIENCE_S, all=True)
    except (EndpointGone, RequestRefused):
        return ()
    return list(rows_of(own, said["at_ns"], said["pairs"], topology, ports, began))


def rows_of(
    own: str,
    at_ns: int,
    pairs: Iterable[Json],
    topology: Topology,
    ports: Mapping[int, tuple[str, int]],
    began: Mapping[str, int],
) -> Iterator[HopRow]:
    """Yield the rows of an endpoint's `stats`, which it gave at `at_ns`.

    `own`: its address. `ports`: by the number in a record. `began`: when switches' clocks began, in
    ns of one clock of all.
    """
    names = {str(each.address.ip): each.host for each in topology.interfaces()}
    for pair in pairs:
        said, peer = pair.get("collected"), str(pair.get("peer_ip"))
        if said is None:
            continue
        first = max(0, said["written"] - len(said["hops"]))  # those next to the sender are cut off
        before = ""
        for number, hop in enumerate(said["hops"]):
            switch, port = ports.get(hop["hop"], ("", 0))
            apart = None
            if number and switch in began and before in began:
                apart = (began[switch] - began[before]) / topology.time_scale
            yield HopRow(
                names.get(peer, peer),
                names.get(own, own),
                pair["qpn"],
                first + number + 1,
                max(said["written"], len(said["hops"])),
                switch,
                port,
                hop["rate_bps"],
                hop["queue_bytes"],
                None if apart is None else latency_ns(hop["since_ns"], apart),
                hop["packets"],
                hop["queue_sum"],
                hop["since_sum_ns"],
                max(0.0, (at_ns - said["at"]) / _NS_PER_S),
                said["changes"],
                apart_ns=apart,
            )
            before = switch


def latency_ns(since_ns: float, apart_ns: float) -> float:
    """Return the time between two hops from what their own clocks say, at most half a wrap long.

    Clocks are compared to some us of real time: what comes out below 0 is 0.
    """
    time = (since_ns + apart_ns) % _WRAPS
    return 0.0 if time >= _WRAPS / 2 else time


def with_means(rows: Iterable[HopRow], before: Iterable[HopRow]) -> Iterator[HopRow]:
    """Yield rows with means over the packets since the look before; a hop that is new has all."""
    known = {row.key: row for row in before}
    for row in rows:
        old = known.get(row.key)
        if old is not None and old.packets > row.packets:
            old = None  # it has been another one in between
        packets = row.packets - (old.packets if old else 0)
        if not packets:
            yield row
            continue
        queue = (row.queue_sum - (old.queue_sum if old else 0)) / packets
        since = (row.since_sum_ns - (old.since_sum_ns if old else 0)) / packets
        mean = None if row.apart_ns is None else latency_ns(since, row.apart_ns)
        yield replace(row, mean_queue_bytes=queue, mean_latency_ns=mean)


def row_json(row: HopRow) -> Json:
    """Return a row as JSON: bytes, the fabric's ns, real seconds."""
    return {
        "source": row.source,
        "target": row.target,
        "queue_pair": row.queue_pair,
        "hop": row.hop,
        "hops": row.hops,
        "switch": row.switch or None,
        "port": row.port if row.switch else None,
        "rate_bps": row.rate_bps,
        "queue_bytes": row.queue_bytes,
        "mean_queue_bytes": None if row.mean_queue_bytes is None else round(row.mean_queue_bytes),
        "latency_ns": None if row.latency_ns is None else round(row.latency_ns),
        "mean_latency_ns": None if row.mean_latency_ns is None else round(row.mean_latency_ns),
        "packets": row.packets,
        "path_changes": row.changes,
        "last_s": round(row.age_s, 6),
    }
