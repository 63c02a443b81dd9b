"""The rows of `weft agent`: queue pairs by name, and their figures as text."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hostagent.pinned_maps import CC_DCQCN, CC_FAST_CNP, Slot
from topologies import Topology
from weft.top_rows import scaled

COLUMNS = [
    "host", "QP", "peer", "its QP", "rate b/s", "of line", "target b/s", "alpha", "fast b/s",
    "CNPs", "fast CNPs", "marked", "ACKs", "NAKs", "packets", "packets/s", "last seen",
]  # fmt: skip
# What a narrow terminal is not shown, in this order.
_LEFT_OUT = (
    "target b/s", "its QP", "marked", "packets", "ACKs", "NAKs", "of line", "fast b/s", "packets/s",
)  # fmt: skip
_OF_FAST_CNPS = ("fast b/s", "fast CNPs")  # only where something goes by them
_TEXTS = 4  # the first columns are texts
_LEAST_WIDTHS = {
    "rate b/s": 8, "target b/s": 8, "alpha": 5, "fast b/s": 8, "CNPs": 6, "marked": 6, "ACKs": 7,
    "packets": 8, "last seen": 9,
}  # fmt: skip
_NAMES = {
    CC_DCQCN: "dcqcn",
    CC_FAST_CNP | CC_DCQCN: "fast-cnp",
    CC_FAST_CNP: "fast-cnp alone",
}
_IDLE_S = 1.0
_CUT = 0.999  # of the line's rate


@dataclass(frozen=True)
class Names:
    """`hosts`: by their name and their interfaces' (h1, h1:1) the host; `addresses`: by address."""

    hosts: Mapping[str, str]
    addresses: Mapping[int, str]

    def host_of(self, address: int) -> str:
        """Return a host's name, or the address where it is none of the topology's."""
        end = self.addresses.get(address)
        return str(ipaddress.IPv4Address(address)) if end is None else self.hosts[end]

    def end_of(self, address: int) -> str:
        """Return the interface's name: h1 for the first, h1:1 for the second."""
        return self.addresses.get(address, str(ipaddress.IPv4Address(address)))


def names_of(topology: Topology) -> Names:
    """Return how a topology's hosts are called."""
    hosts: dict[str, str] = {}
    addresses: dict[int, str] = {}
    for part in topology.interfaces():
        hosts[part.host] = hosts[str(part.end)] = part.host
        addresses[int(part.address.ip)] = str(part.end)
    return Names(hosts, addresses)


def algorithm(slot: Slot) -> str:
    """Return the congestion control's name: "fast-cnp" has DCQCN beside it, as in run files."""
    return _NAMES.get(slot.algorithm, "none")


def cells(slot: Slot, names: Names, time_scale: int, now_ns: int, packets_ps: float) -> list[str]:
    """Return a queue pair's figures in the order of `COLUMNS`; its rates are the fabric's."""
    controlled = bool(slot.rate_bps)
    return [
        names.end_of(slot.local_ip),
        str(slot.qpn),
        names.end_of(slot.peer_ip),
        str(slot.peer_qpn),
        scaled(slot.rate_bps * time_scale) if controlled else "no limit",
        f"{slot.rate_bps / slot.line_rate_bps:.0%}" if controlled else "-",
        scaled(slot.target_bps * time_scale) if slot.target_bps else "-",
        f"{slot.alpha:.3f}" if slot.limited else "-",
        scaled(slot.fast_rate_bps * time_scale) if slot.fast_rate_bps else "-",
        _count(slot.cnps),
        _count(slot.fast_cnps),
        _count(slot.marked),
        _count(slot.acks),
        _count(slot.naks),
        _count(slot.packets),
        scaled(packets_ps),
        since(slot, now_ns),
    ]


def _count(number: int) -> str:
    return str(number) if number else "-"


def since(slot: Slot, now_ns: int) -> str:
    """Return how long ago its last packet came."""
    if not slot.last_ns:
        return "never"
    seconds = max(0, now_ns - slot.last_ns) / 1e9
    if seconds < _IDLE_S:
        return f"{seconds * 1e3:.0f} ms"
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def style(slot: Slot, now_ns: int) -> str:
    """Return the row's colour: cut below its line's rate, at work, idle."""
    if not slot.last_ns or now_ns - slot.last_ns > _IDLE_S * 1e9:
        return "dim"
    cut = slot.rate_bps and slot.rate_bps < _CUT * slot.line_rate_bps
    return "yellow" if cut else "green"


def counters_text(counters: Mapping[str, int], pairs: int) -> str:
    """Return what the program counted over all hosts, in one line."""
    told = [
        f"{name.replace('_qp', ' queue pair')} {count}"
        for name, count in counters.items()
        if count and name not in ("packets", "bytes")
    ]
    text = f"{pairs or 'no'} queue pairs; RoCE packets received: {counters.get('packets', 0)}"
    return text + (f" ({', '.join(told)})" if told else "")


def columns_for(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the columns that these rows need: those of fast CNPs only if something has any."""
    return [
        name
        for place, name in enumerate(COLUMNS)
        if name not in _OF_FAST_CNPS or any(row[place] != "-" for row in rows)
    ]


def aligned(rows: Sequence[Sequence[str]], width: int) -> tuple[str, list[str]]:
    """Return headings and lines that fit `width`; columns that don't, or say nothing, are not."""
    widths = [
        max(_LEAST_WIDTHS.get(column[0], 0), *map(len, column))
        for column in zip(COLUMNS, *rows, strict=True)
    ]
    shown = set(columns_for(rows))
    for name in _LEFT_OUT:
        if sum(wide + 2 for of, wide in zip(COLUMNS, widths, strict=True) if of in shown) > width:
            shown.discard(name)

    def line(of: Sequence[str]) -> str:
        return "".join(
            f" {cell:<{wide}} " if index < _TEXTS else f" {cell:>{wide}} "
            for index, (name, cell, wide) in enumerate(zip(COLUMNS, of, widths, strict=True))
            if name in shown
        )

    return line(COLUMNS), [line(row) for row in rows]
