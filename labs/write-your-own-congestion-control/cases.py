"""The seven networks that are graded and that the lab runs, with one control at all senders.

They lie as run files in `runs`: `weft sim labs/write-your-own-congestion-control/runs/incast.yaml`
runs one with the installed ENCC. By the seed senders start within `jitter_us` of each other, and
clocks differ.
"""

from __future__ import annotations

import gc
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import yaml

from controller.program import CompiledProgram
from experiments.live_flows import with_jitter
from mechanisms.program import FABRIC
from mechanisms.switch_programs import compile_for
from simulator.result_reader import ResultFolder
from simulator.runner import Simulation
from workloads.loader import read_run
from workloads.plan import plan

from .controls import Control

FOLDER = Path(__file__).parent / "runs"
PS_PER_US, PS_PER_MS = 10**6, 10**9
LINE = 100.0
"""Gb/s of each link that fills."""

Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Seen:
    """What a run gave.

    `arrived`: rows of (ms, flow, bytes); `waited`: of (ms, port, bytes), each microsecond in which
    anything waited there. `took`: of each message how long it took in us, NaN if it is not done;
    `sent_again`: packets.
    """

    flows: int
    arrived: Numbers
    waited: Numbers
    took: Numbers
    sizes: Numbers
    sent_again: int

    def gbps(self, first: float, last: float) -> Numbers:
        """Return each flow's goodput between two times in ms, in Gb/s."""
        at, flow, size = self.arrived.T
        chosen = (at > first) & (at <= last)
        got = np.bincount(flow[chosen].astype(int), size[chosen], minlength=self.flows)
        return np.asarray(got * 8e-6 / (last - first))

    def queue(self, first: float, last: float, percent: float = 99) -> float:
        """Return a percentile over time of what waits in the fullest port, in kB."""
        at, port, size = self.waited.T
        chosen = (at > first) & (at <= last)
        samples = round((last - first) * 1000)
        worst = 0.0
        for each in np.unique(port[chosen]):
            rows = chosen & (port == each)
            whole = np.zeros(samples)
            # Samples are a microsecond apart, the first one a microsecond behind `first`.
            place = np.rint((at[rows] - first) * 1000).astype(int) - 1
            np.add.at(whole, np.clip(place, 0, samples - 1), size[rows])
            worst = max(worst, float(np.percentile(whole, percent)))
        return worst / 1000

    def line(self, step: float) -> list[tuple[float, float]]:
        """Return rows of (ms, kB): the longest queue in each step of so many ms."""
        at, _, size = self.waited.T
        end = at.max(initial=0)
        steps = np.arange(0, end, step)
        return [
            (float(t), float(size[(at > t) & (at <= t + step)].max(initial=0) / 1000))
            for t in steps
        ]


def jain(shares: Numbers) -> float:
    """Return Jain's index of fairness: 1 if all have the same, 1/n if one has everything."""
    square = float((shares**2).sum())
    return float(shares.sum() ** 2 / (len(shares) * square)) if square else 0.0


@dataclass(frozen=True)
class Case:
    """A run file; what it gives is measured from `first` to `last`, in ms."""

    name: str
    first: float
    last: float
    jitter_us: int = 10

    def play(self, control: Control, seed: int) -> Seen:
        """Run it with a control. Raises CoreBuildError, CompileError."""
        document = yaml.safe_load((FOLDER / f"{self.name}.yaml").read_text())
        with control.in_place(), tempfile.TemporaryDirectory(prefix="weft-own-cc-") as out:
            run = read_run(yaml.safe_dump(control.applied(document)))
            program = CompiledProgram.of(compile_for(run.topology)(FABRIC), FABRIC)
            traffic = with_jitter(plan(run, seed), seed, self.jitter_us * PS_PER_US)
            outcome = Simulation(run, program, seed=seed, traffic=traffic).run(Path(out))
            gc.collect()  # an engine is in a cycle, and holds more than Python knows of
            again = int(outcome.summary["transport"]["repeated_packets"])
            return _seen(ResultFolder(Path(out)), len(traffic.flows), again)


def _seen(results: ResultFolder, flows: int, sent_again: int) -> Seen:
    def numbers(table: str, *names: str) -> list[Numbers]:
        found = results.table(table, list(names))
        return [found[name].to_numpy().astype(np.float64) for name in names]

    at, flow, size = numbers("flow_rates", "at_ps", "flow", "bytes")
    queues = results.table("queues", ["at_ps", "node", "port", "bytes"])
    places = [f"{a}:{b}" for a, b in zip(
        queues["node"].to_pylist(), queues["port"].to_pylist(), strict=True
    )]  # fmt: skip
    # What waits in hosts is the senders' own: a switch's ports alone count.
    _, port = np.unique(places, return_inverse=True) if places else (None, np.zeros(0))
    waits = queues["bytes"].to_numpy().astype(np.float64)
    when = queues["at_ps"].to_numpy() / PS_PER_MS
    took, sizes = numbers("messages", "completion_ps", "bytes")
    return Seen(
        flows,
        np.column_stack([at / PS_PER_MS, flow, size]),
        np.column_stack([when, port, waits]),
        took / PS_PER_US,
        sizes,
        sent_again,
    )


INCAST = Case("incast", 1, 2)
"""16 senders, of which each has less than a packet in a round trip."""
JOIN = Case("join", 3, 4)
"""Four that share, and one that comes at its line's rate. Measured 2 ms later."""
LEAVE = Case("leave", 2.5, 3)
"""Three end after about 1 ms. Measured when the fourth is alone."""
NEAR_FAR = Case("near-far", 4, 6)
"""Two at the receiver's leaf, two at 2 km: 5 us and 25 us of round trip."""
TWO_LINKS = Case("two-links", 1.5, 3)
"""Six through a first full link, of which one goes on through a second that another one fills."""
LOSSY = Case("lossy", 1, 3)
"""Acknowledgements are lost, data is not."""
MICE = Case("mice", 1, 3)
"""Short messages through a queue that two long ones fill."""
ALL = (INCAST, JOIN, LEAVE, NEAR_FAR, TWO_LINKS, LOSSY, MICE)
