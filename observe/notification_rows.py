"""The rows of `weft agent --notifications`: what switches notified hosts of, as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hostagent.notifications import Heard, HeardCounts
from mechanisms import registry
from observe.agent_rows import Names, age
from protocols.notification_types import NotificationType
from topologies import Topology

COLUMNS = ["host", "type", "from", "about", "severity", "came", "last", "valid for"]
_RIGHT = 4  # from this column on they are numbers
_NS_PER_S = 1e9


def kind(number: int) -> str:
    """Return a type as users read it: link-down."""
    return NotificationType(number).name.lower().replace("_", "-")


def sender(each: Heard, topology: Topology) -> str:
    """Return the switch and port that a notification names, s1:3; the number of a stranger."""
    names = {switch.device_id: switch.name for switch in topology.switches}
    return f"{names.get(each.switch_id, each.switch_id)}:{each.port}"


def left_s(each: Heard, topology: Topology, now_ns: int) -> float | None:
    """Return for how many real seconds it still holds, 0 if it has expired; None: unknown."""
    unit_ps = registry.validity_unit_ps(topology, each.kind)
    if not unit_ps:
        return None
    holds_s = (unit_ps << each.validity) * topology.time_scale / 1e12
    return max(0.0, holds_s - (now_ns - each.at_ns) / _NS_PER_S)


def ordered(found: Sequence[Heard], hosts: Sequence[int] | None = None) -> list[Heard]:
    """Return notifications by host, the latest first; `hosts`: only those of these addresses."""
    kept = [each for each in found if hosts is None or each.local_ip in hosts]
    return sorted(kept, key=lambda each: (each.local_ip, -each.at_ns))


def cells(each: Heard, names: Names, topology: Topology, now_ns: int) -> list[str]:
    """Return a notification's figures in the order of `COLUMNS`."""
    left = left_s(each, topology, now_ns)
    return [
        names.end_of(each.local_ip),
        kind(each.type),
        sender(each, topology),
        names.end_of(each.destination) if each.destination else "-",
        str(each.severity),
        str(each.times),
        age(each.at_ns, now_ns),
        "-" if left is None else "expired" if not left else f"{left:.3g} s",
    ]


def lines(rows: Sequence[Sequence[str]]) -> tuple[str, list[str]]:
    """Return headings and rows, in columns."""
    widths = [max(map(len, column)) for column in zip(COLUMNS, *rows, strict=True)]

    def line(of: Sequence[str]) -> str:
        return "".join(
            f" {cell:<{wide}} " if place < _RIGHT else f" {cell:>{wide}} "
            for place, (cell, wide) in enumerate(zip(of, widths, strict=True))
        )

    return line(COLUMNS), [line(row) for row in rows]


def right() -> list[str]:
    """Return the columns of numbers."""
    return COLUMNS[_RIGHT:]


def counts_json(counts: HeardCounts) -> dict[str, object]:
    """Return how many datagrams came, over all hosts of the run."""
    types = {_name(number): packets for number, packets in counts.types.items()}
    return {
        "types": types,
        "malformed": counts.malformed,
        "no_queue_pair": counts.no_queue_pair,
        "lost": counts.lost,
    }


def counts_text(counts: HeardCounts) -> str:
    """Return the same in one line; empty where none came."""
    found: Mapping[str, int] = {
        **{_name(number): packets for number, packets in counts.types.items()},
        "malformed": counts.malformed,
        "for no queue pair": counts.no_queue_pair,
        "without room": counts.lost,
    }
    parts = [f"{name} {packets}" for name, packets in found.items() if packets]
    return f"notifications received: {', '.join(parts)}" if parts else ""


def row_json(each: Heard, names: Names, topology: Topology, now_ns: int) -> dict[str, object]:
    """Return a notification as JSON; times in real seconds."""
    left = left_s(each, topology, now_ns)
    return {
        "host": names.host_of(each.local_ip),
        "local_ip": each.local,
        "type": kind(each.type),
        "from": sender(each, topology),
        "switch_id": each.switch_id,
        "port": each.port,
        "about": names.end_of(each.destination) if each.destination else None,
        "destination": each.destination,
        "destination_qp": each.destination_qp,
        "severity": each.severity,
        "sequence": each.sequence,
        "validity": each.validity,
        "times": each.times,
        "last_s": round((now_ns - each.at_ns) / _NS_PER_S, 6),
        "valid_s": None if left is None else round(left, 6),
    }


def _name(number: int) -> str:
    known = number in NotificationType.__members__.values()
    return kind(number) if known else f"type {number}"
