"""The same run in the simulator, seen in the same terms: what stands beside a run in real time.

The simulator runs it at the same time scale: links, congestion control and everything that
the run file times are as slow as in real time. What comes is in fabric time again.
"""

from __future__ import annotations

import gc
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from controller.program import CompiledProgram
from experiments.live_flows import LiveError, live_flows, with_jitter
from experiments.live_model import FlowSeries, LiveRun, LiveSettings, PortSeries
from experiments.live_planes import of_simulator
from simulator.result_reader import ResultFolder
from simulator.runner import Outcome, Simulation
from softswitch.core.records import QueuePeak
from workloads.model import RunFile, Traffic
from workloads.plan import plan
from workloads.senders import columns

_NOTHING = np.zeros(0, dtype=np.int64)


def simulate(
    run: RunFile, program: CompiledProgram, settings: LiveSettings, *, alike: bool = True
) -> LiveRun:
    """Run a run file in the simulator as `experiments.live.play` does in real time.

    `alike` False: it has no counterpart in real time, and may have what can't be run there, as
    long as it has an end and messages over a transport. Raises LiveError, TopologyError,
    PipelineError, WriteFailed.
    """
    try:
        return _simulated(run, program, settings, alike)
    finally:
        gc.collect()  # an engine is in a cycle, and holds more than Python knows of


def _simulated(
    run: RunFile, program: CompiledProgram, settings: LiveSettings, alike: bool
) -> LiveRun:
    seed = run.seed if settings.seed is None else settings.seed
    traffic = with_jitter(plan(run, seed), seed, settings.jitter_ps)
    if alike:
        live_flows(run, traffic)  # refuses what would not be the same run
    nothing = not len(traffic.flows) and not run.programs
    if run.until_ps is None or nothing or not traffic.flows["transport"].all():
        raise LiveError(f"{run.name}: flows need an end (`until`) and a `transport` to be compared")
    scale = settings.time_scale
    simulation = Simulation(
        replace(run, sample_ps=settings.sample_ps * scale),
        program,
        seed=seed,
        until_ps=run.until_ps * scale,
        time_scale=scale,
        traffic=slowed(traffic, scale),
    )
    queue = int(traffic.flows["queue"][0]) if len(traffic.flows) else 0
    for switch, port in settings.ports:
        core = simulation.fabric.switches[switch].device.core
        core.watch_queue(port, queue, settings.above_bytes)
    with tempfile.TemporaryDirectory(prefix="weft-") as directory:
        outcome = simulation.run(Path(directory))
        results = ResultFolder(Path(directory))
        peaks = {
            (switch, port): simulation.fabric.switches[switch].device.core.queue_peak(port, queue)
            for switch, port in settings.ports
        }
        return _Seen(run, traffic, settings, seed, outcome, results, peaks).run()


def slowed(traffic: Traffic, scale: int) -> Traffic:
    """Return messages whose times are as slow as the links: the simulator leaves them as given."""
    messages = traffic.messages.messages.copy()
    messages["start_ps"] *= scale
    messages["gap_ps"] *= scale
    return replace(traffic, messages=replace(traffic.messages, messages=messages))


class _Seen:
    """A simulator's results as a LiveRun."""

    def __init__(
        self,
        file: RunFile,
        traffic: Traffic,
        settings: LiveSettings,
        seed: int,
        outcome: Outcome,
        results: ResultFolder,
        peaks: Mapping[tuple[str, int], QueuePeak],
    ) -> None:
        self.file, self.traffic, self.settings = file, traffic, settings
        self.seed, self.outcome, self.results = seed, outcome, results
        self.scale = settings.time_scale
        self.first = traffic.first_flows()
        self.peaks = peaks
        self.planes = of_simulator(results, self.scale)

    def run(self) -> LiveRun:
        queues = _columns(self.results, "queues", "at_ps", "node", "port", "bytes")
        rows, rates = [], {}  # without flows the tables have no columns of transports
        if len(self.traffic.flows):
            rows = _rows(self.results, "flows", "first_cut_ps", *_COUNTS)
            rates = _columns(self.results, "flow_rates", "at_ps", "flow", "bytes", "cc_rate_bps")
        return LiveRun(
            self.file.name,
            "simulator",
            self.scale,
            self.seed,
            self.outcome.end.now_ps // self.scale,
            tuple(self._port(queues, *port) for port in self.settings.ports),
            tuple(self._flow(number, row, rates) for number, row in enumerate(rows)),
            self._drops(),
            programs=tuple(self.outcome.end.programs),
        )

    def _drops(self) -> dict[str, dict[str, int]]:
        found: dict[str, dict[str, int]] = {}
        for row in _rows(self.results, "drops", "node", "port", "reason", "packets"):
            if row["node"] and row["port"] is None:
                of_switch = found.setdefault(row["node"], {})
                of_switch[row["reason"]] = of_switch.get(row["reason"], 0) + row["packets"]
        return found

    def _port(self, queues: Mapping[str, Any], switch: str, port: int) -> PortSeries:
        """Return a port's queue: empty at a sample that says nothing of it."""
        looks = np.arange(1, self.outcome.end.now_ps // (self.settings.sample_ps * self.scale) + 1)
        depth = np.zeros(len(looks) + 1, dtype=np.int64)
        here = (queues["node"] == switch) & (queues["port"] == port)
        at = queues["at_ps"][here].astype(np.int64) // (self.settings.sample_ps * self.scale)
        np.add.at(depth, np.minimum(at, len(looks)), queues["bytes"][here].astype(np.int64))
        ports = self.outcome.end.switches[switch].ports
        counters = ports[port]
        drops = {
            name.removeprefix("drop_"): count
            for name, count in counters.items()
            if name.startswith("drop_") and count
        }
        at_ps = np.concatenate([[0], looks]).astype(np.int64) * self.settings.sample_ps
        peak = self.peaks[switch, port]
        return PortSeries(
            switch,
            port,
            at_ps,
            depth,
            peak.bytes,
            None if peak.above_at < 0 else peak.above_at // self.scale,
            drops=drops,
            sent_bytes=int(counters["tx_bytes"]),
        )

    def _flow(self, number: int, row: Mapping[str, Any], rates: Mapping[str, Any]) -> FlowSeries:
        flow = self.traffic.flow(number)
        here = rates["flow"] == number
        at_ps = rates["at_ps"][here].astype(np.int64) // self.scale
        allowed = rates["cc_rate_bps"][here]
        transport = int(self.traffic.flows["transport"][number]) - 1
        line = self.traffic.transports[transport].line_rate_bps
        rate = np.where(np.isnan(allowed), line, allowed * self.scale).astype(np.int64)
        own = self.traffic.messages.messages["flow"] == self.first[number]
        starts = self.traffic.messages.messages["start_ps"][own]
        done = self.outcome.end.message_times["done"][own]
        return FlowSeries(
            str(flow.src),
            str(flow.dst),
            int(starts.min()),
            _NOTHING,
            _NOTHING,
            np.concatenate([[0], at_ps]),
            np.concatenate([[0], np.cumsum(rates["bytes"][here].astype(np.int64))]),
            at_ps,
            rate,
            int(done.max()) // self.scale if (done >= 0).all() else None,
            None if row["first_cut_ps"] is None else row["first_cut_ps"] // self.scale,
            {ours: int(row[theirs]) for theirs, ours in _COUNTS.items() if ours != "marked"},
            {"marked": int(row["marked"])},
            planes=self.planes.get(number, ()),
        )


_COUNTS = {
    "cnps": "cnps_received",
    **{each.name: f"{each.counter}_received" for each in columns()},
    "marked": "marked",
    "repeated_packets": "repeated_packets",
    "timeouts": "timeouts",
}
"""Columns of flows.parquet by the names that rnic_qp_stats has."""


def _rows(results: ResultFolder, table: str, *columns: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = results.table(table, columns).to_pylist()
    return rows


def _columns(results: ResultFolder, table: str, *columns: str) -> dict[str, Any]:
    found = results.table(table, columns)
    return {name: found[name].to_numpy() for name in columns}
