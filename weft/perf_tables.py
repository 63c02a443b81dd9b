"""The tables of `weft perf`, with perftest's columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from experiments.perf_report import Bandwidth, Latency, Measurement, Report
from weft import console
from workloads.senders import columns, titles

BANDWIDTH_COLUMNS = (
    "#bytes", "#iterations", "BW peak[Gb/sec]", "BW average[Gb/sec]", "MsgRate[Mpps]",
)  # fmt: skip
LATENCY_COLUMNS = (
    "#bytes", "#iterations", "t_min[usec]", "t_max[usec]", "t_typical[usec]", "t_avg[usec]",
    "t_stdev[usec]", "99% percentile[usec]", "99.9% percentile[usec]",
)  # fmt: skip
PLANE_COLUMNS = (
    "#bytes", "sent by", "plane", "packets", "of the bytes", "losses", "sent again by others",
)  # fmt: skip
_TITLES = {"bandwidth": "BW", "latency": "Latency"}
_PRECISE_BELOW = 0.1  # Gb/s: then perftest shows six digits, too


def show(report: Report) -> None:
    """Print everything that was measured, then what it holds for."""
    for mode in ("bandwidth", "latency"):
        measured = [each for each in report.measurements if each.mode == mode]
        if measured:
            _table(report, mode, measured)
            _planes(report, mode, measured)
    print(conditions(report))
    for line in _lines(report):
        print(line)


def _table(report: Report, mode: str, measured: Sequence[Measurement]) -> None:
    columns = BANDWIDTH_COLUMNS if mode == "bandwidth" else LATENCY_COLUMNS
    several = len(report.parameters["sources"]) > 1
    scaled = report.time_scale != 1
    head = (["from"] if several else []) + list(columns) + (["time"] if scaled else [])
    rows: list[list[str]] = []
    for measurement in measured:
        results = [(row.source, row.result) for row in measurement.rows]
        if measurement.total is not None:
            results.append(("all", measurement.total))
        for name, result in results:
            for scale, clock in _clocks(report):
                cells = figures(mode, result, measurement.size, scale)
                rows.append(([name] if several else []) + cells + ([clock] if scaled else []))
    sources = ", ".join(report.parameters["sources"])
    title = f"RDMA {report.parameters['operation'].upper()} {_TITLES[mode]}  {sources} -> "
    console.table(head, rows, title=title + report.parameters["target"], right=columns)
    for measurement in measured:
        if measurement.jain is not None:
            print(f" Jain's index of {measurement.size} B: {measurement.jain:.4f}")


def _planes(report: Report, mode: str, measured: Sequence[Measurement]) -> None:
    """Print what each plane carried, where queue pairs have some."""
    several = len(report.parameters["sources"]) > 1
    rows = [
        [
            *([row.source] if several else []),
            str(measurement.size),
            plane.interface,
            plane.plane or "-",
            str(plane.packets),
            f"{plane.share:.1%}",
            str(plane.losses),
            str(plane.moved_packets),
        ]
        for measurement in measured
        for row in measurement.rows
        for plane in row.planes
    ]
    if rows:
        head = [*(["from"] if several else []), *PLANE_COLUMNS]
        right = ("#bytes", *PLANE_COLUMNS[3:])
        console.table(head, rows, title=f"{_TITLES[mode]} by plane", right=right)


def _clocks(report: Report) -> list[tuple[int, str]]:
    if report.time_scale == 1:
        return [(1, report.clock)]
    return [(1, report.clock), (report.time_scale, "fabric")]


def figures(mode: str, result: Bandwidth | Latency | None, size: int, scale: int = 1) -> list[str]:
    """Return the cells of a result; `scale` turns real time into fabric time."""
    if result is None:
        columns = BANDWIDTH_COLUMNS if mode == "bandwidth" else LATENCY_COLUMNS
        return [str(size), "0", *["-"] * (len(columns) - 2)]
    first = [str(size), str(result.iterations)]
    if isinstance(result, Bandwidth):
        peak = "-" if result.peak_bps is None else _gbps(result.peak_bps * scale)
        rate = f"{result.messages_per_s * scale / 1e6:.6f}"
        return [*first, peak, _gbps(result.average_bps * scale), rate]
    times = (
        *(result.minimum_ps, result.maximum_ps, result.typical_ps, result.average_ps),
        *(result.deviation_ps, result.p99_ps, result.p999_ps),
    )
    return [*first, *(_usec(time / scale) for time in times)]


def _gbps(bps: float) -> str:
    gbps = bps / 1e9
    return f"{gbps:.6f}" if gbps < _PRECISE_BELOW else f"{gbps:.2f}"


def _usec(ps: float) -> str:
    usec = ps / 1e6
    return f"{usec:.4f}" if usec < 1 else f"{usec:.2f}"


def conditions(report: Report) -> str:
    """Say what the numbers hold for: runtime, clock, scale and parameters."""
    given, scale = report.parameters, report.time_scale
    text = f" runtime {report.runtime}, {report.clock} time; time_scale {scale}"
    if scale != 1:
        text += f": {scale} s here are 1 s in the fabric"
    control = titles(given["control"], given["congestion_control"])
    depth = "" if given["depth"] is None else f", depth {given['depth']}"
    ways = ", over all interfaces" if given.get("interfaces") == "all" else ""
    ways += " as planes" if given.get("failover") else ""
    text += f"\n {given['qps']} queue pair(s) a source{ways}{depth}, MTU {given['mtu']}"
    return f"{text}, {control}, {given['retransmission']}"


def _lines(report: Report) -> Iterator[str]:
    for measurement in report.measurements:
        for row in measurement.rows:
            said = {name: n for name, n in row.counts.items() if n and name in _COUNTED}
            if said:
                text = ", ".join(f"{n} {_COUNTED[name]}" for name, n in said.items())
                yield f" {row.source}, {measurement.mode}, {measurement.size} B: {text}"
    for note in report.notes:
        yield f" {note}"
    if report.interrupted:
        yield " interrupted: this is what was measured until then"


_COUNTED = {
    "repeated_packets": "packets sent again",
    "timeouts": "time-outs",
    "naks": "NAKs",
    "cnps": "CNPs",
    **{each.name: each.title for each in columns()},
}
