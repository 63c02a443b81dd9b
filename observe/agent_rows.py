"""The rows of `weft agent`: queue pairs by name, and their figures as text."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from hostagent.pinned_maps import Slot
from observe.agent_cards import NO_CARD, CardPair
from observe.top_rows import scaled
from topologies import Topology
from workloads.senders import StateColumn, columns, senders

_STATES = tuple(column for each in senders() for column in each.state_columns if column.title)
_COUNTED = columns()
COLUMNS = [
    "host", "QP", "peer", "its QP", "rate b/s", "of line", *(each.title for each in _STATES),
    "CNPs", *(each.title for each in _COUNTED),
    "marked", "ACKs", "NAKs", "lost", "answers", "sends by", "path", "cause",
    "packets", "packets/s", "last seen",
]  # fmt: skip
_OPTIONAL = {
    *(each.title for each in _STATES if each.optional),
    *(each.title for each in _COUNTED),
    *("lost", "answers", "sends by", "path", "cause"),
}
"""Columns that are there only if a row has something in them."""
# What a narrow terminal is not shown, in this order.
_LEFT_OUT = (
    *(each.title for each in _STATES if each.is_rate and not each.optional),
    "its QP", "marked", "packets", "ACKs", "NAKs", "answers", "of line", "cause",
    *(each.title for each in _STATES if each.optional and each.is_rate), "packets/s",
    *(each.title for each in reversed(_STATES) if each.optional and not each.is_rate),
)  # fmt: skip
_TEXTS = 4  # the first columns are texts
_LEAST_WIDTHS = {each.title: 8 if each.is_rate else 5 for each in _STATES} | {
    "rate b/s": 8, "CNPs": 6, "marked": 6, "ACKs": 7, "packets": 8, "last seen": 9,
}  # fmt: skip
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


def ordered(slots: Iterable[Slot]) -> list[Slot]:
    """Return slots by host and queue pair; the planes of one are together, in their order."""
    found = list(slots)
    first = {each.number: each.local_ip for each in found}

    def place(slot: Slot) -> tuple[int, int, int]:
        home = first.get(slot.shared, slot.local_ip) if slot.planes else slot.local_ip
        return home, slot.qpn, slot.plane

    return sorted(found, key=place)


def pairs(slots: Iterable[Slot]) -> int:
    """Return how many queue pairs have these slots: one over planes has several."""
    return len({each.shared if each.planes else each.number for each in slots})


def states(slot: Slot, card: CardPair = NO_CARD) -> dict[str, float | str | None]:
    """Return what the algorithms' states show, by key; None where an algorithm does not run.

    The kernel learns of a plane's loss with the first answer after it, the card at once: what it
    says of the queue pair holds.
    """
    found: dict[str, float | str | None] = {}
    for each in senders():
        for column in each.state_columns:
            value: float | str | None = None
            if each.algorithm in slot.states:
                value = column.value(slot.states[each.algorithm], slot.rates[each.algorithm])
                if column.is_plane:
                    value = card.plane_word(slot.plane, str(value))
            found[column.key] = value
    return found


def counters(found: Mapping[str, int]) -> dict[str, int]:
    """Return the program's counters by the names that users see."""
    names = {each.counter: each.name for each in _COUNTED}
    return {names.get(name, name): count for name, count in found.items()}


def cells(
    slot: Slot,
    names: Names,
    time_scale: int,
    now_ns: int,
    packets_ps: float,
    card: CardPair = NO_CARD,
) -> list[str]:
    """Return a queue pair's figures in the order of `COLUMNS`; its rates are the fabric's.

    Of one over planes they are a plane's, whose number stands behind the queue pair's. `card`: what
    the host's card says of it.
    """
    controlled = bool(slot.rate_bps)
    found = states(slot, card)
    return [
        names.end_of(slot.local_ip),
        f"{slot.qpn}:{slot.plane}" if slot.planes else str(slot.qpn),
        names.end_of(slot.peer_ip),
        str(slot.peer_qpn),
        scaled(slot.rate_bps * time_scale) if controlled else "no limit",
        f"{slot.rate_bps / slot.line_rate_bps:.0%}" if controlled else "-",
        *(_state(column, found[column.key], time_scale) for column in _STATES),
        _count(slot.cnps),
        *(_count(getattr(slot, each.counter)) for each in _COUNTED),
        _count(slot.marked),
        _count(slot.acks),
        _count(slot.naks),
        age(slot.lost_at, now_ns) if slot.lost_at else "-",
        _count(slot.probes),
        names.end_of(card.path.address) if card.path else "-",
        _path(card),
        card.cause(slot.plane) or "-",
        _count(slot.packets),
        scaled(packets_ps),
        since(slot, now_ns),
    ]


def _path(card: CardPair) -> str:
    """Return where path migration stands."""
    if card.path is None:
        return "-"
    return "switching" if card.path.switching else card.path.state


def _state(column: StateColumn, value: float | str | None, time_scale: int) -> str:
    if isinstance(value, str):
        return value
    if not value:
        return "-"
    if isinstance(value, int) and not column.is_rate:
        return str(value)
    return scaled(value * time_scale) if column.is_rate else f"{value:.3f}"


def _count(number: int) -> str:
    return str(number) if number else "-"


def since(slot: Slot, now_ns: int) -> str:
    """Return how long ago its last packet came."""
    return age(slot.last_ns, now_ns) if slot.last_ns else "never"


def age(at_ns: int, now_ns: int) -> str:
    """Return how long ago something was."""
    seconds = max(0, now_ns - at_ns) / 1e9
    if seconds < _IDLE_S:
        return f"{seconds * 1e3:.0f} ms"
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def style(slot: Slot, now_ns: int) -> str:
    """Return the row's colour: cut below its line's rate, at work, idle."""
    if not slot.last_ns or now_ns - slot.last_ns > _IDLE_S * 1e9:
        return "dim"
    cut = slot.rate_bps and slot.rate_bps < _CUT * slot.line_rate_bps
    return "yellow" if cut else "green"


def counters_text(found: Mapping[str, int], pairs: int) -> str:
    """Return what the program counted over all hosts, in one line."""
    told = [
        f"{name.replace('_qp', ' queue pair')} {count}"
        for name, count in counters(found).items()
        if count and name not in ("packets", "bytes")
    ]
    are = f"{pairs or 'no'} queue pair{'' if pairs == 1 else 's'}"
    text = f"{are}; RoCE packets received: {found.get('packets', 0)}"
    return text + (f" ({', '.join(told)})" if told else "")


def columns_for(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the columns that these rows need: optional ones only if something has any."""
    return [
        name
        for place, name in enumerate(COLUMNS)
        if name not in _OPTIONAL or any(row[place] != "-" for row in rows)
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
