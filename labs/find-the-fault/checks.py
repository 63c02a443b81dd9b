"""Which instrument sees which fault, and whether the reference finds each, and no other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from experiments.grade import reference
from labs import Check, Context, Estimate, Measured, NotRunError, Table

from .answers import (
    FLAPPING,
    HEALTHY,
    MIS_SET_CLASS,
    ONE_WAY,
    SILENT_DROPS,
    AnswerError,
    is_right,
)
from .diagnosis import Diagnose, answer_of, from_text
from .faults import FAINT, ROCE_DSCP, VARIANTS, draw
from .observations import Observations
from .play import Played, played

FILE = Path("reference.py")
ROCE_QUEUE = 3
STRAYS = 3
TRACED, PROBES = 8, 2
FOUND = "found by the reference"
GAPS, LOSSY, DEAD = "until counted in gaps", "until found lossy", "until found dead"
GRAY_MOST_US = 2000
"""As docs/dpfr.md says of 1 %."""

DEAD_MOST_US = 60
UNSURE = 0.05
"""Of a share's confidence interval."""


def measure_simulator(context: Context) -> dict[str, Measured]:
    """Play the seed's case of a fault, look at it with each instrument, and diagnose it."""
    variant = context.variant.labels["fault"]
    case = draw(variant, context.seed, context.mapping, context.settings, context.folder)
    (context.out / "truth.txt").write_text(f"{case.truth}\n")
    diagnose = from_text(reference(context.folder), FILE)
    return played(
        case, context.program, context.settings["sample_us"], lambda fabric: _look(fabric, diagnose)
    )


def _look(fabric: Played, diagnose: Diagnose) -> dict[str, Measured]:
    seen, truth = fabric.observations(), fabric.case.truth
    try:
        answer = answer_of(diagnose, seen, fabric.topology, FILE)
        right = is_right(answer, truth, fabric.topology)
    except AnswerError:
        right = False
    first = fabric.first_us
    gray = truth.kind == SILENT_DROPS
    found = {
        FOUND: Measured(int(right)),
        "flows that lose packets": Measured(_losing_flows(seen)),
        "packets missing on a link": Measured(_most_missing(seen)),
        "dropped for want of room": Measured(sum(p.dropped[-1] for p in seen.ports.values())),
        **_heartbeats(seen),
        "switches without RoCE's queue": Measured(_without_queue(seen)),
        **_traced(seen),
    }
    if gray:
        found[GAPS] = Measured(first.get("gaps"), "us")
        if fabric.case.run.name != FAINT:
            found[LOSSY] = Measured(first.get("lossy"), "us")
    if truth.kind == ONE_WAY:
        found[DEAD] = Measured(first.get("went_down"), "us")
    return found


def _losing_flows(seen: Observations) -> int:
    """Count the flows that applications see lose: RoCE's, with more lost than a stray packet."""
    return sum(flow.sent - flow.received >= STRAYS for flow in seen.flows if flow.dscp == ROCE_DSCP)


def _most_missing(seen: Observations) -> int:
    """Return the most packets that port counters show to have left one end of a link only."""
    return max(seen.ports[a].sent[-1] - seen.ports[b].received[-1] for a, b in seen.links)


def _heartbeats(seen: Observations) -> dict[str, Measured]:
    totals = {
        name: sum(counts[name][-1] for counts in seen.heartbeats.values())
        for name in ("gaps", "lossy", "went_down", "lost_carrier")
    }
    return {f"heartbeats: {name}": Measured(count) for name, count in totals.items()}


def _without_queue(seen: Observations) -> int:
    """Count the switches at which nothing ever waited in the queue of RoCE's packets."""
    used: dict[str, int] = {}
    for port, queues in seen.queues.items():
        switch = port.partition(":")[0]
        used[switch] = max(used.get(switch, 0), queues[ROCE_QUEUE])
    return sum(most == 0 for most in used.values())


def _traced(seen: Observations) -> dict[str, Measured]:
    """Trace the flows that lost most; return the lost probes and the hops by another queue."""
    flows = [flow for flow in seen.flows if flow.dscp == ROCE_DSCP]
    flows.sort(key=lambda flow: flow.received - flow.sent)
    traces = [
        seen.path(each.source, each.target, each.udp_port, count=PROBES) for each in flows[:TRACED]
    ]
    wrong = {
        hop.switch
        for trace in traces
        for hop in trace.hops
        for way in hop.left
        if way.queue != ROCE_QUEUE
    }
    return {
        "probes lost": Measured(sum(trace.sent - trace.arrived for trace in traces)),
        "switches traced in another queue": Measured(len(wrong)),
    }


# ---------------------------------------------------------------- what has to come out


def checks(table: Table) -> Iterator[Check]:
    """Yield the checks of the lab's outcome."""
    for fault in VARIANTS:
        name = "healthy fabrics called healthy" if fault == HEALTHY else f"{fault}: found"
        yield Check.at_least(f"{name}, share of seeds", _share(table, fault), 1,
                             note=_how_sure(table, fault))  # fmt: skip
    yield Check.at_most(
        f"{SILENT_DROPS}: {GAPS}", _estimate(table, SILENT_DROPS, GAPS), GRAY_MOST_US, "us"
    )
    yield Check.at_most(
        f"{SILENT_DROPS}: {LOSSY}", _estimate(table, SILENT_DROPS, LOSSY), GRAY_MOST_US, "us"
    )
    yield Check.reported(f"{FAINT}: {GAPS}", _estimate(table, FAINT, GAPS), "us")
    yield Check.at_most(f"{ONE_WAY}: {DEAD}", _estimate(table, ONE_WAY, DEAD), DEAD_MOST_US, "us")
    yield from _instruments(table)


def _instruments(table: Table) -> Iterator[Check]:
    """Which instrument sees what, and which does not."""
    for fault, metric, least, why in (
        (SILENT_DROPS, "packets missing on a link", 5, "port counters see it"),
        (SILENT_DROPS, "heartbeats: lossy", 1, "and so do heartbeats"),
        (FAINT, "packets missing on a link", 5, "port counters see it"),
        (ONE_WAY, "heartbeats: went_down", 2, "both ends find it dead"),
        (FLAPPING, "heartbeats: lost_carrier", 2, "each time"),
        (MIS_SET_CLASS, "switches without RoCE's queue", 1, "queues see it"),
        (MIS_SET_CLASS, "switches traced in another queue", 1, "and so do traced paths"),
    ):
        yield Check.at_least(f"{fault}: {metric}", _estimate(table, fault, metric), least, note=why)
    for fault, metric, why in (
        (HEALTHY, "heartbeats: lossy", "stray losses are below the threshold"),
        (HEALTHY, "heartbeats: went_down", "full queues delay no heartbeat"),
        (SILENT_DROPS, "probes lost", "the flows have been sent another way long since"),
        (ONE_WAY, "probes lost", "the same"),
        (MIS_SET_CLASS, "flows that lose packets", "nobody sees it by pings"),
        (MIS_SET_CLASS, "heartbeats: lossy", "no packet is missing"),
    ):
        yield Check.at_most(f"{fault}: {metric}", _estimate(table, fault, metric), 0, note=why)
    room = "dropped for want of room"
    yield Check.at_least(f"{HEALTHY}: {room}", _estimate(table, HEALTHY, room), 1,
                         note="congestion, which is no fault")  # fmt: skip


def _estimate(table: Table, fault: str, metric: str) -> Callable[[], Estimate]:
    return lambda: table.estimate(table.variant(fault=fault), metric)


def _share(table: Table, fault: str) -> Callable[[], float]:
    """Look up in which share of the seeds the reference was right."""

    def share() -> float:
        found = _found(table, fault)
        return sum(found) / len(found)

    return share


def _found(table: Table, fault: str) -> list[float]:
    variant = table.variant(fault=fault)
    table.estimate(variant, FOUND)  # raises for a run that failed
    return [run.metrics[FOUND].value or 0 for run in table.runs(variant)]


def _how_sure(table: Table, fault: str) -> str:
    """Say in words what all of n seeds say of all others, if so: Clopper and Pearson's bound."""
    try:
        found = _found(table, fault)
    except NotRunError:
        return ""
    number = len(found)
    right = int(sum(found))
    if right < number:
        return f"{right} of {number}"
    least = (UNSURE / 2) ** (1 / number)
    return f"{right} of {number}: with 95 % confidence at least {100 * least:.0f} % of all"
