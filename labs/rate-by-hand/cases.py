"""The five networks that are graded and that the lab runs, with the learner's header in each card.

They lie as run files in `runs`: `weft sim labs/rate-by-hand/runs/share.yaml` runs one with the
rule that is installed. By the seed senders start within `jitter_us` of each other, and clocks
differ.
"""

from __future__ import annotations

import gc
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from controller.program import CompiledProgram
from experiments.live_flows import with_jitter
from hostagent.own_algorithm import Built
from mechanisms.program import FABRIC
from mechanisms.switch_programs import compile_for
from simulator.core.own_algorithm import engine_in_place
from simulator.result_reader import ResultFolder
from simulator.runner import Simulation
from workloads.loader import load_run_file
from workloads.plan import plan

FOLDER = Path(__file__).parent / "runs"
PS_PER_US, PS_PER_MS = 10**6, 10**9

Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Seen:
    """What a run gave: rows of (ms, flow, bytes) that arrived, and of (ms, bytes) that waited."""

    flows: int
    arrived: Numbers
    waited: Numbers
    done: tuple[float | None, ...]
    """When each message was done, in ms."""

    def gbps(self, first: float, last: float) -> Numbers:
        """Return each flow's goodput between two times in ms, in Gb/s."""
        at, flow, size = self.arrived.T
        chosen = (at > first) & (at <= last)
        got = np.bincount(flow[chosen].astype(int), size[chosen], minlength=self.flows)
        return np.asarray(got * 8e-6 / (last - first))

    def longest(self, first: float, last: float) -> float:
        """Return how much waited in a queue at most between two times in ms, in MB."""
        at, size = self.waited.T
        return float(size[(at > first) & (at <= last)].max(initial=0) / 1e6)

    def line(self, step: float) -> list[tuple[float, float]]:
        """Return rows of (ms, MB): the longest queue in each step of so many ms."""
        end = self.waited[:, 0].max(initial=0)
        return [(at, self.longest(at, at + step)) for at in np.arange(0, end, step).tolist()]


def jain(shares: Numbers) -> float:
    """Return Jain's index of fairness: 1 if all have the same, 1/n if one has everything."""
    square = float((shares**2).sum())
    return float(shares.sum() ** 2 / (len(shares) * square)) if square else 0.0


@dataclass(frozen=True)
class Case:
    """A run file; what it gives is measured from `first` to `last`, in ms."""

    name: str
    jitter_us: int
    first: float
    last: float

    def play(self, built: Built, seed: int) -> Seen:
        """Run it with a header in the place of the installed rule.

        Raises CoreBuildError, CompileError.
        """
        run = load_run_file(FOLDER / f"{self.name}.yaml")
        program = CompiledProgram.of(compile_for(run.topology)(FABRIC), FABRIC)
        traffic = with_jitter(plan(run, seed), seed, self.jitter_us * PS_PER_US)
        with engine_in_place(built), tempfile.TemporaryDirectory(prefix="weft-rate-") as out:
            Simulation(run, program, seed=seed, traffic=traffic).run(Path(out))
            gc.collect()  # an engine is in a cycle, and holds more than Python knows of
            return _seen(ResultFolder(Path(out)), len(traffic.flows))


def _seen(results: ResultFolder, flows: int) -> Seen:
    def rows(table: str, *names: str) -> Numbers:
        found = results.table(table, ["at_ps", *names])
        columns = [found[name].to_numpy().astype(np.float64) for name in names]
        return np.column_stack([found["at_ps"].to_numpy() / PS_PER_MS, *columns])

    done = results.table("messages", ["done_ps"])["done_ps"].to_pylist()
    return Seen(
        flows,
        rows("flow_rates", "flow", "bytes"),
        rows("queues", "bytes"),
        tuple(None if at is None else at / PS_PER_MS for at in done),
    )


SHARE = Case("share", 1000, 16, 24)
"""Two senders near their receiver, two at 100 km."""
TWO_QUEUES = Case("two-queues", 100, 4, 8)
"""A flow through two full links, of which the second is shared by four and the first by two."""
MANY = Case("many", 100, 4, 10)
"""64 senders to one, at 100 Gb/s: each is told seldom."""
LEAVE = Case("leave", 100, 3.1, 3.3)
"""One of four pauses until the others have ended. Measured when it is back."""
ROUNDS = Case("rounds", 10, 1.6, 8)
"""Eight at 10 km that pause for longer than a word stands, and come back at once. Measured from the
second round on: in the first nobody knows anything."""
ALL = (SHARE, TWO_QUEUES, MANY, LEAVE, ROUNDS)
