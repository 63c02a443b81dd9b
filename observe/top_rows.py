"""The rows of `weft top`: which ports, in which order, and their figures as text."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from mechanisms.contract import PortCounter
from mechanisms.registry import all_counters, counters
from observe.errors import UsageError
from observe.follow import Moment
from observe.samples import PortRates, PortSample, SwitchRates, SwitchSample, fabric_bps
from topologies import Topology
from topologies.planes import planes_of

_PREFIXES = ("", "k", "M", "G", "T", "P")
_NO_RATES = PortRates()


class Order(enum.Enum):
    """What ports are sorted by; all but the name have the highest first.

    A mechanism's counter is an order, too.
    """

    NAME = "name"
    LOAD = "load"
    RX = "rx"
    TX = "tx"
    QUEUE = "queue"
    DROPS = "drops"
    MARKS = "marks"


AnyOrder = Order | PortCounter


def order_of(text: str) -> AnyOrder:
    """Return what `--sort` asks for. Raises UsageError."""
    own = {each.value: each for each in Order}
    known = own | {order_name(each): each for each in all_counters()}
    if text not in known:
        raise UsageError(f"--sort {text}: choose one of {', '.join(known)}")
    return known[text]


def order_name(order: AnyOrder) -> str:
    """Return how `--sort` says it."""
    return order.value if isinstance(order, Order) else order.key.replace("_", "-")


@dataclass(frozen=True)
class PortRow:
    """One port: what it is, what was counted, and the rates.

    `plane`: what planes its switch belongs to, in words; None in a fabric without any.
    """

    switch: str
    port: int
    peer: str
    sample: PortSample
    rates: PortRates
    plane: str | None = None

    @property
    def name(self) -> str:
        """Switch and port, as topology files write it."""
        return f"{self.switch}:{self.port}"


def port_rows(
    moment: Moment, only: Sequence[str] = (), order: AnyOrder = Order.NAME
) -> list[PortRow]:
    """Return rows of all ports, or of those that `only` names: switches, hosts or `s1:3`.

    Raises UsageError for what is not in the topology.
    """
    topology = moment.record.topology
    known = {switch.name for switch in topology.switches} | {host.name for host in topology.hosts}
    planes = planes_of(topology)
    rows = [
        PortRow(
            name,
            number,
            str(topology.peer(name, number)),
            port,
            moment.rates.get(name, SwitchRates()).ports.get(number, _NO_RATES),
            planes.names.get(name, "") if planes.planes else None,
        )
        for name, switch in moment.sample.items()
        for number, port in sorted(switch.ports.items())
    ]
    ends = {
        f"{switch.name}:{port.number}"
        for switch in topology.switches
        for port in topology.ports_of(switch.name)
    }
    for name in only:
        if name not in known | ends:
            there = ", ".join(sorted(known, key=_natural))
            raise UsageError(f"{topology.name} has no {name!r}: name a switch, a host ({there})")
    if only:
        rows = [row for row in rows if _is_named(row, only)]
    if order is not Order.NAME:
        rows.sort(key=lambda row: -_key(row, order))
    return rows


def switches_of(rows: Iterable[PortRow], moment: Moment, only: Sequence[str]) -> list[str]:
    """Return the switches to show beside these rows: theirs, and those named that have no rows."""
    shown = {row.switch for row in rows} | set(only)
    return [name for name in moment.sample if not only or name in shown]


def _is_named(row: PortRow, only: Sequence[str]) -> bool:
    return bool({row.switch, row.name, row.peer, row.peer.partition(":")[0]} & set(only))


def _natural(name: str) -> tuple[str, int]:
    digits = name[len(name.rstrip("0123456789")) :]
    return name.removesuffix(digits), int(digits or 0)


def _key(row: PortRow, order: AnyOrder) -> float:
    match order:
        case Order.LOAD:
            return row.rates.load
        case Order.RX:
            return row.rates.rx_bps
        case Order.TX:
            return row.rates.tx_bps
        case Order.QUEUE:
            return row.sample.queue_bytes or 0
        case Order.DROPS:
            return row.rates.drops_ps * 1e12 + row.sample.dropped
        case Order.MARKS:
            return row.rates.marks_ps * 1e12 + (row.sample.marked_packets or 0)
        case PortCounter():
            return row.rates.per_second(order) * 1e12 + (row.sample.count(order) or 0)
        case Order.NAME:
            return 0.0


def columns(topology: Topology) -> list[str]:
    """Return the headings. Where the fabric's time is another one, its rates stand beside.

    Only a fabric that uses a mechanism has the columns of its counters, and only one of several
    planes says which one a switch belongs to.
    """
    fabric = ["fabric rx", "fabric tx"] if topology.time_scale != 1 else []
    plane = ["plane"] if planes_of(topology).planes else []
    return [
        *("port", "to", *plane, "rx b/s", "tx b/s", *fabric, "rx p/s", "tx p/s", "load"),
        *("queue", "max", "drops", "marks"),
        *(each.title for each in counters(topology)),
    ]


def cells(row: PortRow, topology: Topology) -> list[str]:
    """Return a row's figures in the order of `columns`."""
    rates, sample, time_scale = row.rates, row.sample, topology.time_scale
    state = "down" if sample.up is False else sample.state(counters(topology))
    fabric = (
        [scaled(fabric_bps(bps, time_scale)) for bps in (rates.rx_bps, rates.tx_bps)]
        if time_scale != 1
        else []
    )
    return [
        row.name,
        f"{row.peer} ({state})" if state else row.peer,
        *(() if row.plane is None else (row.plane or "-",)),
        scaled(rates.rx_bps),
        scaled(rates.tx_bps),
        *fabric,
        scaled(rates.rx_pps),
        scaled(rates.tx_pps),
        f"{rates.load:.0%}" if rates.load else "-",
        queue_text(sample),
        "?" if sample.queue_packets_max is None else f"{sample.queue_packets_max} p",
        count_and_rate(sample.dropped, rates.drops_ps),
        _known(sample.marked_packets, rates.marks_ps),
        *(_known(sample.count(c), rates.per_second(c)) for c in counters(topology)),
    ]


def _known(count: int | None, per_second: float) -> str:
    return "?" if count is None else count_and_rate(count, per_second)


def queue_text(sample: PortSample) -> str:
    """Return what waits, and how much of the queue that is."""
    if sample.queue_bytes is None:
        return "?"
    if not sample.queue_bytes:
        return "-"
    share = (
        f" {sample.queue_bytes / sample.queue_limit_bytes:.0%}" if sample.queue_limit_bytes else ""
    )
    return f"{scaled(sample.queue_bytes)}B{share}"


def count_and_rate(count: int, per_second: float) -> str:
    """Return a count, and how fast it grows where it does."""
    if not count:
        return "-"
    return f"{count} +{scaled(per_second)}/s" if per_second else str(count)


def drops_text(sample: SwitchSample, rates: SwitchRates) -> str:
    """Return why packets ended in a switch, reasons that count most first."""
    told = sorted(
        ((count, why) for why, count in sample.drops.items() if count), key=lambda item: -item[0]
    )
    return ", ".join(
        f"{why} {count_and_rate(count, rates.drops_ps.get(why, 0.0))}" for count, why in told
    )


def scaled(value: float) -> str:
    """Return a number with three figures and a decimal prefix: 40000000 -> '40.0 M'; 0 -> '-'."""
    if not value:
        return "-"
    step = 0
    while abs(value) >= 999.5 and step < len(_PREFIXES) - 1:
        value /= 1000
        step += 1
    digits = 0 if abs(value) >= 99.95 or (step == 0 and value == int(value)) else 1
    return f"{value:.{digits}f} {_PREFIXES[step]}".rstrip() if step else f"{value:.{digits}f}"
