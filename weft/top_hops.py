"""`weft top --hops`: the paths of flows hop by hop, in the place of ports."""

from __future__ import annotations

from collections.abc import Sequence

from observe.flow_hops import HopRow
from observe.follow import Moment
from observe.top_rows import scaled

COLUMNS = [
    "flow", "QP", "hop", "port", "line b/s", "queue", "mean", "latency", "mean latency",
    "packets", "paths", "last seen",
]  # fmt: skip
TEXTS = 4
"""The first columns, which are texts."""
_STALE_S = 10.0


def hop_rows(moment: Moment, only: Sequence[str] = ()) -> list[HopRow]:
    """Return rows, or those of flows that have a host, a switch or a port (s1:3) of `only`."""
    chosen = set(only)
    wanted = {
        (row.source, row.target, row.queue_pair)
        for row in moment.hops.rows
        if not chosen or chosen & {row.source, row.target, row.switch, row.place}
    }
    return [r for r in moment.hops.rows if (r.source, r.target, r.queue_pair) in wanted]


def cells(row: HopRow) -> list[str]:
    """Return a row in the order of `COLUMNS`; latencies are the fabric's."""
    return [
        f"{row.source}>{row.target}",
        str(row.queue_pair),
        f"{row.hop} of {row.hops}",
        row.place,
        scaled(row.rate_bps),
        _bytes(row.queue_bytes),
        "" if row.mean_queue_bytes is None else _bytes(row.mean_queue_bytes),
        _time(row.latency_ns),
        _time(row.mean_latency_ns),
        str(row.packets),
        str(row.changes + 1),
        f"{row.age_s:.0f} s" if row.age_s >= _STALE_S else f"{1000 * row.age_s:.0f} ms",
    ]


def notes(moment: Moment, rows: Sequence[HopRow]) -> list[str]:
    """Return why there is nothing to show, if that is so."""
    if moment.hops.problem:
        return [moment.hops.problem]
    if rows:
        return []
    if moment.hops.rows:
        return ["no flow of which packets bring records goes by what was named"]
    return ["no packet has come with records of hops yet"]


def _bytes(value: float) -> str:
    return f"{scaled(value)}B" if value else "-"


def _time(ns: float | None) -> str:
    """Return a time with three figures: 12.3 us."""
    if ns is None:
        return ""
    value, unit = (ns / 1e6, "ms") if ns >= 1e6 else (ns / 1e3, "us") if ns >= 1e3 else (ns, "ns")
    return f"{value:.3g} {unit}"
