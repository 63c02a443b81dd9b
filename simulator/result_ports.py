"""Tables of what stood at ports when a run ended: counters, drops, pauses, and who was blocked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from simulator.result_blocking import Blocking
from simulator.result_flows import Outcome
from simulator.result_model import RunEnd, SwitchEnd
from simulator.result_tables import Column, Kind, TableWriter, integers
from topologies.model import Topology

_CLASSES = range(8)
_NONE = -1
# Of ws_port_stats, in this order; a counter that the core does not have is null.
PORT_COUNTERS = (
    "rx_packets",
    "rx_bytes",
    "tx_packets",
    "tx_bytes",
    "drop_down",
    "drop_queue",
    "depth_packets",
    "depth_bytes",
    "max_depth_packets",
    "wait_ps",
    "waited",
)
HOST_COUNTERS = (
    "tx_packets",
    "tx_bytes",
    "rx_packets",
    "rx_bytes",
    "pfc_received",
    "queue_packets",
    "queue_bytes",
)
PFC_COUNTERS = (
    "xoff_sent",
    "xon_sent",
    "xoff_received",
    "xon_received",
    "paused_ps",
    "watchdog_events",
    "watchdog_drops",
    "drop_headroom",
    "drop_shared",
    "most_bytes",
)
_PFC_DROPS = ("drop_headroom", "drop_shared", "watchdog_drops")
_MILLI = 1000

_PLACE = (Column("node", Kind.TEXT), *integers("port"))


def write_ports(path: Path, topology: Topology, end: RunEnd, about: Mapping[str, str]) -> int:
    """Write final counters of each switch port. `mean_depth_millipackets` is exact (Little)."""
    rows = [
        {
            "node": node,
            "port": port,
            "peer": _peer(topology, node, port),
            **{name: _number(counters, name) for name in PORT_COUNTERS},
            "mean_depth_millipackets": _mean_depth(counters, end.now_ps),
        }
        for node, switch in end.switches.items()
        for port, counters in sorted(switch.ports.items())
    ]
    columns = (
        *_PLACE,
        Column("peer", Kind.TEXT),
        *integers(*PORT_COUNTERS, "mean_depth_millipackets"),
    )
    return _write(path, columns, rows, about)


def _mean_depth(counters: Mapping[str, int], now_ps: int) -> int:
    """Return the time-weighted mean queue in thousandths of a packet: time waited over time."""
    if "wait_ps" not in counters or now_ps <= 0:
        return _NONE
    return int(counters["wait_ps"]) * _MILLI // now_ps


def write_host_ports(path: Path, end: RunEnd, about: Mapping[str, str]) -> int:
    """Write final counters of each host interface."""
    rows = [
        {"node": node, "port": port, **{name: _number(counters, name) for name in HOST_COUNTERS}}
        for (node, port), counters in end.host_ports.items()
    ]
    return _write(path, (*_PLACE, *integers(*HOST_COUNTERS)), rows, about)


def drop_rows(end: RunEnd) -> list[dict[str, Any]]:
    """Return a row for each place, reason and class at which packets were lost.

    What the program or the switch as a whole dropped has no port. Packets lost between nodes have
    no node: the reason is then `link_down`.
    """
    rows = [row for node, switch in end.switches.items() for row in _drops_of(node, switch)]
    lost = int(end.totals.get("lost_link", 0))
    if lost:
        rows.append(_drop("", _NONE, _NONE, "link_down", lost))
    return rows


def _drops_of(node: str, switch: SwitchEnd) -> Iterator[dict[str, Any]]:
    for name, dropped in switch.stats.items():
        count = dropped - switch.taken if name == "drop_ingress" else dropped
        if name.startswith("drop_") and count:
            yield _drop(node, _NONE, _NONE, name.removeprefix("drop_"), int(count))
    for port in sorted({*switch.ports, *switch.pfc, *switch.wires}):
        for name, count in switch.ports.get(port, {}).items():
            if name.startswith("drop_") and count:
                yield _drop(node, port, _NONE, name.removeprefix("drop_"), int(count))
        for name in _PFC_DROPS:
            for number in _CLASSES:
                count = _of_class(switch.pfc.get(port, {}), name, number)
                if count > 0:
                    reason = name.removeprefix("drop_").removesuffix("_drops")
                    yield _drop(node, port, number, reason, count)
        for direction, counters in sorted(switch.wires.get(port, {}).items()):
            for name in ("lost", "lost_fcs", "lost_flow"):
                if counters.get(name, 0):
                    yield _drop(node, port, _NONE, f"wire_{direction}_{name}", counters[name])


def _drop(node: str, port: int, number: int, reason: str, packets: int) -> dict[str, Any]:
    return {"node": node, "port": port, "class": number, "reason": reason, "packets": packets}


def write_drops(path: Path, rows: Sequence[Mapping[str, Any]], about: Mapping[str, str]) -> int:
    """Write the rows of `drop_rows`."""
    columns = (*_PLACE, *integers("class"), Column("reason", Kind.TEXT), *integers("packets"))
    return _write(path, columns, rows, about)


def pause_rows(end: RunEnd) -> list[dict[str, Any]]:
    """Return a row for each port and class that sent or got a pause; hosts only get some."""
    rows = []
    places: list[tuple[str, int, Mapping[str, int | Sequence[int]]]] = [
        (node, port, counters)
        for node, switch in end.switches.items()
        for port, counters in sorted(switch.pfc.items())
    ]
    places += [(node, port, counters) for (node, port), counters in end.host_ports.items()]
    for node, port, counters in places:
        for number in _CLASSES:
            values = {name: _of_class(counters, name, number) for name in PFC_COUNTERS}
            if any(value > 0 for value in values.values()):
                rows.append({"node": node, "port": port, "class": number, **values})
    return rows


def write_pauses(path: Path, rows: Sequence[Mapping[str, Any]], about: Mapping[str, str]) -> int:
    """Write the rows of `pause_rows`."""
    return _write(path, (*_PLACE, *integers("class", *PFC_COUNTERS)), rows, about)


def write_blocked(path: Path, at_ps: int, blocking: Blocking, about: Mapping[str, str]) -> int:
    """Write the paused queues that hold packets, and at which queues their waiting ends."""
    rows = [
        {
            "at_ps": at_ps,
            "node": each.queue.node,
            "port": each.queue.port,
            "class": each.queue.queue,
            "packets": each.packets,
            "bytes": each.bytes,
            "deadlocked": each.deadlocked,
            "roots": " ".join(map(str, each.roots)),
        }
        for each in blocking.blocked
    ]
    columns = (
        *integers("at_ps"),
        *_PLACE,
        *integers("class", "packets", "bytes"),
        Column("deadlocked", Kind.FLAG),
        Column("roots", Kind.TEXT),
    )
    return _write(path, columns, rows, about)


def write_victims(
    path: Path, at_ps: int, blocking: Blocking, outcome: Outcome, about: Mapping[str, str]
) -> int:
    """Write the flows that wait in a queue because of congestion that is not on their path."""
    rows = []
    for number, queue in blocking.victims:
        flow = outcome.traffic.flow(number)
        rows.append(
            {
                "at_ps": at_ps,
                "flow": number,
                "src": str(flow.src),
                "dst": str(flow.dst),
                "node": queue.node,
                "port": queue.port,
                "class": queue.queue,
            }
        )
    ends = (Column("src", Kind.TEXT), Column("dst", Kind.TEXT))
    columns = (*integers("at_ps", "flow"), *ends, *_PLACE, *integers("class"))
    return _write(path, columns, rows, about)


def _write(
    path: Path,
    columns: Sequence[Column],
    rows: Sequence[Mapping[str, Any]],
    about: Mapping[str, str],
) -> int:
    writer = TableWriter(path, columns, about)
    writer.append_rows(rows)
    writer.close()
    return writer.rows


def _number(counters: Mapping[str, Any], name: str) -> int:
    return int(counters[name]) if name in counters else _NONE


def _of_class(counters: Mapping[str, Any], name: str, number: int) -> int:
    values = counters.get(name)
    return int(values[number]) if isinstance(values, (list, tuple)) else _NONE


def _peer(topology: Topology, node: str, port: int) -> str:
    try:
        return str(topology.peer(node, port))
    except KeyError:
        return ""
