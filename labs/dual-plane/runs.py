"""A variant's run: what fails when, and what the job and its planes made of it."""

from __future__ import annotations

import gc
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from labs import Context, Measured
from labs.fabric_program import program_of
from simulator.result_reader import ResultFolder
from simulator.runner import Outcome, Simulation
from topologies.document import Document
from workloads.loader import run_of
from workloads.model import RunFile
from workloads.randomness import Random

from . import hour

PS_PER_US = 1_000_000
RANKS = 7
HOUR = "hour"
TIMELINE = "timeline.json"
HEALTHY = ("none", "steady")
BACK_STEP_US = 500
FULL = 0.98
"""Of the goodput before the cut: with so much a plane counts as back."""


@dataclass(frozen=True)
class Cut:
    """What fails in a run: the plane's number, the host, when, and when it works again (or 0)."""

    plane: int
    host: int
    at_us: float
    back_us: float

    @property
    def switches(self) -> list[str]:
        """The plane's switches."""
        first = 2 * self.plane
        return [f"s{number}" for number in (first + 1, first + 2, first + 5, first + 6)]

    def events(self, failure: str) -> Iterator[dict[str, Any]]:
        """Yield it as the topology file's events."""
        leaf = 1 + 2 * self.plane + (self.host - 1) // 4
        port = 1 + (self.host - 1) % 4
        link, at = f"h{self.host}:{self.plane}-s{leaf}:{port}", f"{round(self.at_us * 1000)}ns"
        if failure in ("link", "restored"):
            yield {"at": at, "link": link, "do": "down"}
        if failure == "restored":
            yield {"at": f"{round(self.back_us * 1000)}ns", "link": link, "do": "up"}
        if failure in ("silent", "there", "back"):
            towards = {"there": {"towards": f"s{leaf}"}, "back": {"towards": f"h{self.host}"}}
            yield {"at": at, "link": link, "loss": "100%", **towards.get(failure, {})}
        if failure == "lossy":
            yield {"at": at, "link": link, "loss": "10%"}
        if failure == "slow":
            yield {"at": at, "link": link, "rate": "20Gbps", "towards": f"h{self.host}"}
        if failure in ("leaf", "spine"):
            switch = leaf if failure == "leaf" else 5 + 2 * self.plane
            yield {"at": at, "switch": f"s{switch}", "do": "kill"}


def failure_of(context: Context) -> str:
    """Return what kind of failure a variant is about."""
    return "restored" if HOUR in context.variant.labels else context.variant.labels["failure"]


def cut_of(context: Context) -> Cut:
    """Return what fails by the seed. Who has one plane loses that one."""
    random = Random(context.seed, "cut")
    own, failure = context.settings, failure_of(context)
    first = own["hour_cut_us"] if HOUR in context.variant.labels else own["cut_us"]
    at = first + random.below(1 + 1000 * own["jitter_us"]) / 1000
    host, plane = 1 + random.below(RANKS), random.below(2)
    if context.variant.labels.get("nic") == "single":
        plane = 0
    lasts = own["outage_us"] if HOUR in context.variant.labels else own["back_us"]
    return Cut(plane, host, at, at + lasts if failure == "restored" else 0.0)


def run_file(context: Context, cut: Cut) -> RunFile:
    """Return the variant's run with its failure."""
    mapping = json.loads(json.dumps(context.mapping))
    events = list(cut.events(failure_of(context)))
    if events:
        mapping["events"] = events
    return run_of(Document("lab.yaml", mapping, {}), context.variant.name, context.folder)


def measure(context: Context) -> dict[str, Measured]:
    """Run it and return what became of the job's goodput."""
    cut = cut_of(context)
    run = run_file(context, cut)
    try:
        simulation = Simulation(run, program_of(context, run.topology), seed=context.seed)
        outcome = simulation.run(context.out)
        if HOUR in context.variant.labels:
            return hour.measured(ResultFolder(context.out), context, cut.back_us)
        return _measured(context, cut, outcome)
    finally:
        gc.collect()  # an engine is in a cycle, and holds more than Python knows of


@dataclass(frozen=True)
class Series:
    """What a host receives of the job on average, by steps of the same length; Gb/s."""

    step_us: float
    gbps: npt.NDArray[np.float64]

    def mean(self, first_us: float, last_us: float) -> float:
        """Return the mean over the steps that lie within two times."""
        first, last = int(np.ceil(first_us / self.step_us)), int(last_us // self.step_us)
        return float(self.gbps[first:last].mean())

    def coarser(self, step_us: float) -> Series:
        """Return it by longer steps; what is left over at the end is not there."""
        each = round(step_us / self.step_us)
        whole = len(self.gbps) // each * each
        return Series(step_us, self.gbps[:whole].reshape(-1, each).mean(axis=1))


def series_of(results: ResultFolder, until_us: float) -> Series:
    """Return the goodput of a finished run."""
    table = results.table("flow_rates", ["at_ps", "flow", "bytes"])
    step = results.sample_ps / PS_PER_US
    places = np.round(table["at_ps"].to_numpy() / results.sample_ps).astype(np.int64) - 1
    received = np.bincount(places, table["bytes"].to_numpy(), minlength=int(until_us // step))
    return Series(step, received * 8 / (step * 1e3) / RANKS)


def _measured(context: Context, cut: Cut, outcome: Outcome) -> dict[str, Measured]:
    results = ResultFolder(context.out)
    until = results.now_ps / PS_PER_US
    series = series_of(results, until)
    failure, own = context.variant.labels["failure"], context.settings
    quiet = until if failure in HEALTHY else cut.at_us
    before = series.mean(100, quiet)
    transport = outcome.summary["transport"]
    found = {
        "goodput before": Measured(before, "Gb/s"),
        "failed": Measured(transport["failed"]),
        "repeated": Measured(transport["repeated_packets"]),
    }
    if failure == "steady":
        found["longest queue"] = Measured(_longest(results, cut, 0, until) / 1000, "kB")
    if failure not in HEALTHY:
        first, last = own["window_us"]
        after = series.mean(cut.at_us + first, cut.at_us + last)
        found["after the cut"] = Measured(100 * after / before, "%")
        found["at the end"] = Measured(100 * series.mean(until - last, until) / before, "%")
        found |= _noticed(results, cut)
    if failure == "restored":
        found |= _restored(results, series, cut, before, until)
    _keep(context, series, cut, before)
    return found


def _noticed(results: ResultFolder, cut: Cut) -> dict[str, Measured]:
    """How long after the cut the last plane of those who send was lost that was."""
    if not results.has("planes"):
        return {}
    planes = results.table("planes", ["sends", "lost_ps"])
    lost = [
        row["lost_ps"] / PS_PER_US - cut.at_us
        for row in planes.to_pylist()
        if row["sends"] and row["lost_ps"] is not None
    ]
    return {"noticed": Measured(max(lost), "us")} if lost else {}


def _restored(
    results: ResultFolder, series: Series, cut: Cut, goodput: float, until: float
) -> dict[str, Measured]:
    """When all of the goodput is back for good, and how long the plane's queues grew then.

    By means over `BACK_STEP_US`: what a host receives rises and falls with the AllReduce's steps.
    Queues before the cut, too: when the job started, all hosts at once and at the line's rate.
    """
    coarse = series.coarser(BACK_STEP_US)
    short = np.flatnonzero(coarse.gbps < FULL * goodput)
    back = (int(short[-1]) + 1) * coarse.step_us - cut.back_us
    before = _longest(results, cut, 0, cut.at_us)
    after = _longest(results, cut, cut.back_us, until)
    return {
        "back after": Measured(back / 1000, "ms"),
        "queue before": Measured(before / 1000, "kB"),
        "queue on return": Measured(after / 1000, "kB"),
    }


def _longest(results: ResultFolder, cut: Cut, first_us: float, last_us: float) -> int:
    """Return the longest queue of the cut's plane that was seen between two times, in bytes."""
    table = results.table("queues", ["at_ps", "node", "bytes"])
    at = pc.divide(table["at_ps"].cast("float64"), PS_PER_US).to_numpy()
    chosen = np.isin(table["node"].to_pylist(), cut.switches) & (at >= first_us) & (at < last_us)
    return int(table["bytes"].to_numpy()[chosen].max(initial=0))


def _keep(context: Context, series: Series, cut: Cut, before: float) -> None:
    coarse = series.coarser(context.settings["step_us"])
    kept = {
        "step_us": coarse.step_us,
        "cut_us": cut.at_us,
        "back_us": cut.back_us,
        "before": before,
        "gbps": [round(float(value), 3) for value in coarse.gbps],
    }
    (context.out / TIMELINE).write_text(json.dumps(kept))
