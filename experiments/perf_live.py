"""`weft perf` on the running fabric: hosts' endpoints measure, in real time."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from emulation import control, fabric_record, rdma
from emulation.endpoints import Place
from experiments.perf_planes import shares
from experiments.perf_report import Bandwidth, Measurement, Report, Row, latency
from experiments.perf_request import DEFAULT_COUNT, DEFAULT_DEPTH, MAX_MESSAGES, Request, interfaces
from experiments.perf_simulated import notes
from workloads.senders import columns, titles, with_those_beside
from workloads.transport_schema import transport_entry

if TYPE_CHECKING:
    from emulation.session import Session
    from topologies import Topology

DEFAULT_SECONDS = 2.0
MOST_LATENCIES = 100_000

Draw = Callable[[float, str], None]

_COUNTS = {
    "repeated_packets": "repeated_packets",
    "repeated_bytes": "repeated_bytes",
    "timeouts": "timeouts",
    "naks_received": "naks",
    "cnps_received": "cnps",
    **{f"{each.counter}_received": each.name for each in columns()},
}
_COLUMNS = {each.counter: each.name for each in columns()}


def from_elsewhere(request: Request, draw: Draw) -> Report:
    """Measure in the run that is up, from another process than its runner.

    Raises NoRunError, NotRootError, UsageError, and what an endpoint says.
    """
    from emulation.session import require_root  # Mininet, which `perf --sim` does without

    require_root("weft perf (in the simulator it needs no root: --sim TOPOLOGY)")
    fabric = fabric_record.running()
    sources, target = interfaces(request, fabric.topology)
    names = [str(each.end) for each in (*sources, target)]
    places: dict[str, Place] = {}
    for line in control.ask("endpoint", names):
        said = json.loads(line)
        places[said["name"]] = Place(Path(said["socket"]), said["interface"])
    return measure(request, fabric.topology, places, fabric.runtime, draw)


def in_session(session: Session, request: Request, draw: Draw) -> Report:
    """Measure in the runner itself. Raises UsageError, and what an endpoint says."""
    sources, target = interfaces(request, session.topology)
    names = [str(each.end) for each in (*sources, target)]
    places = endpoint_places(session, names)
    return measure(request, session.topology, places, session.target.value, draw)


def endpoint_places(session: Session, names: list[str]) -> dict[str, Place]:
    """Return where the endpoints of interfaces (h1, h1:1) take clients; started if need be."""
    live = {host.name: host for host in session.network.live_interfaces()}
    return session.endpoints.places([live[name] for name in names])


def measure(
    request: Request,
    topology: Topology,
    places: Mapping[str, Place],
    runtime: str,
    draw: Draw,
) -> Report:
    """Do all measurements of a request; Ctrl-C ends it with the results so far."""
    sources, target = interfaces(request, topology)
    said = {name: rdma.info(place) for name, place in places.items()}
    mtu = request.mtu or min(_mtu(request, each) for each in said.values())
    request = replace(request, mtu=mtu)
    measured: list[Measurement] = []
    for mode, size in request.measurements():
        work = _work(request, topology, mode, size)
        tell = _teller(draw, work)
        answers = rdma.measure(topology, places, sources, target, work, tell)
        senders = [target if request.operation == "read" else source for source in sources]
        rows = tuple(
            replace(
                _row(mode, answer),
                planes=shares(topology, sender, map(_by_interface, answer.planes)),
            )
            for sender, answer in zip(senders, answers, strict=True)
        )
        interrupted = any(answer.interrupted for answer in answers)
        measured.append(Measurement(mode, size, rows, interrupted))
        if interrupted:
            break
    return Report(
        topology.name,
        runtime,
        "real",
        topology.time_scale,
        {**request.parameters(), "endpoints": {name: _kind(each) for name, each in said.items()}},
        tuple(measured),
        notes=(
            *(f"{name}: {_kind_text(each, request)}" for name, each in said.items()),
            *notes(request, topology),
            *_slow_motion(request, topology, measured),
        ),
        interrupted=measured[-1].interrupted,
    )


def _mtu(request: Request, said: Mapping[str, Any]) -> int:
    """Return the largest MTU that fits all interfaces used by an endpoint."""
    used = said["interfaces"] if request.interfaces == "all" else [said]
    return int(min(each["mtu"] for each in used))


def _came(measured: Sequence[Measurement], name: str) -> bool:
    """Return whether a source counted any of these."""
    return any(row.counts.get(name) for each in measured for row in each.rows)


def _slow_motion(
    request: Request, topology: Topology, measured: Sequence[Measurement]
) -> Iterator[str]:
    """Say how long it takes here, where everything is slowed down, until a cut rate grows."""
    if topology.time_scale == 1:
        return
    entry = transport_entry().model_validate(request.transport())
    for each in with_those_beside(request.control):
        recovery = each.recovery
        if recovery is not None and _came(measured, _COLUMNS.get(recovery.counter, "cnps")):
            timer_ns = recovery.timer_ns(each.parameters(entry, 10**9))
            here = timer_ns * topology.time_scale / 1e9
            yield (
                f"{recovery.text} {timer_ns // 1000} us of the fabric, {here:g} s here: long "
                "measurements belong to the simulator (--sim)"
            )


def _teller(draw: Draw, work: rdma.Work) -> Callable[[], None]:
    started = time.monotonic()

    def tell() -> None:
        if work.duration_ms:
            share = 1000 * (time.monotonic() - started) / work.duration_ms
            last = ", waiting for the last messages" * (share > 1)
            draw(min(1.0, share), f"{work.mode}, {work.size} B{last}")

    return tell


def _kind(said: Mapping[str, Any]) -> dict[str, Any]:
    return {name: said[name] for name in ("mode", "mode_reason", "kernel")}


def _kind_text(said: Mapping[str, Any], request: Request) -> str:
    text = "AF_XDP" if said["mode"] == "af_xdp" else "AF_PACKET"
    if said["mode_reason"]:
        text += f" ({said['mode_reason']})"
    if request.control == "none":
        return text
    where = "kernel" if said["kernel"] else "endpoint"
    return f"{text}, {titles(request.control)} in the {where}"


def _work(request: Request, topology: Topology, mode: str, size: int) -> rdma.Work:
    """Return every endpoint's work: so many messages, or those that fit the time."""
    seconds = request.duration_s
    fastest = max(topology.real_rate_bps(link) for link in topology.links)
    if request.interfaces == "all":
        fastest *= max(len(host.interfaces) for host in topology.hosts)
    depth = request.depth or _depth(request, fastest, size)
    count = request.count or DEFAULT_COUNT
    if seconds is None and request.count is None:
        seconds = DEFAULT_SECONDS
    elif seconds is not None:
        fit = int(fastest * seconds / (8 * size)) // request.qps + depth + 1
        count = min(fit, MAX_MESSAGES // (request.qps * len(request.sources)))
    if mode == "latency":
        count = min(count, MOST_LATENCIES)
    return rdma.Work(
        request.operation,
        mode,
        size,
        count,
        qps=request.qps,
        depth=depth,
        duration_ms=round(1000 * (seconds or 0)),
        mtu=request.mtu,
        control=request.transport(),
        retransmission=request.retransmission,
    )


def _depth(request: Request, rate_bps: int, size: int) -> int:
    """Return how many messages are outstanding on a queue pair: none longer than a second or so."""
    of_all = rate_bps // (8 * size)
    return min(DEFAULT_DEPTH, max(1, of_all // (request.qps * len(request.sources))))


def _by_interface(said: Mapping[str, Any]) -> tuple[int, Mapping[str, Any]]:
    return said["interface"], said


def _row(mode: str, answer: rdma.Answer) -> Row:
    said = answer.said
    names = (answer.source, answer.target)
    if not said:
        return Row(*names, None, answer.failures)
    counts = {
        ours: sum(pair.get(theirs, 0) for pair in said["pairs"]) for theirs, ours in _COUNTS.items()
    }
    counts["cpu_ns"] = said["cpu_ns"]
    if mode == "latency":
        times = np.array(said["times_ns"], dtype=np.int64) * 1000
        return Row(*names, latency(times), answer.failures, counts)
    found = None
    if said["messages"]:
        found = Bandwidth(
            said["messages"], said["bytes"], said["elapsed_ns"] * 1000, float(said["peak_bps"])
        )
    return Row(*names, found, answer.failures, counts)
