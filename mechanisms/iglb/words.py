"""The word `iglb` at the prompt: jobs, their plan, its pins in switches, and who misdeclared."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from controller.entries import Exact, TableEntry
from controller.jobs import DeclaredJob
from mechanisms.contract import Rows, Running, Word, WordError
from mechanisms.iglb.counters import IGLB as COUNTER
from mechanisms.iglb.entries import NAME, PIN_TABLE, PLAN_TABLE
from mechanisms.iglb.followed import Followed
from mechanisms.iglb.learner import PlannedPaths
from mechanisms.iglb.pins import Flow, followed
from mechanisms.iglb.settings import KEY
from mechanisms.iglb.shares import Lie, shares, undeclared
from mechanisms.on_off import ON_OFF, counts_of, is_used, knowing
from topologies.model import Topology


@dataclass(frozen=True)
class _Shown:
    """What the controller says of its plan."""

    on: bool
    version: int
    followed: Followed | None
    jobs: Mapping[str, DeclaredJob]
    trouble: str
    avoided: int


def _iglb(running: Running, rest: str) -> Iterator[str | Rows]:
    topology, controller = running.topology, running.controller
    used = topology.setting(KEY) is not None
    without = f"{topology.name} has no iglb: the controller plans no job"
    if not is_used("iglb", rest, used, without, "in the topology: iglb: true"):
        yield without
        return
    able = knowing(running, PLAN_TABLE, COUNTER, "iGLB")
    if rest:
        controller.switch_mechanism(NAME, rest == "on")
    shown = controller.ask(NAME, _show)
    if shown is None:
        raise WordError("the controller's program knows no iGLB")
    yield from _state(shown)
    if rest or not shown.jobs:
        return
    yield Rows(["job", "hosts", "flows", "with pins"], _jobs(topology, shown), "jobs")
    rows, unplanned, counted = _switches(running, able)
    columns = ["switch", "follows", "pins", "RoCE packets since the switch started"]
    yield Rows(columns, rows, "pins by switch")
    yield from _lies(topology, shown, unplanned, counted)


def _show(learner: PlannedPaths | None) -> _Shown | None:
    if learner is None:
        return None
    now = learner.in_force
    jobs = {job.name: job for job in now.jobs}
    return _Shown(
        learner.on, now.version, now.followed, jobs, learner.trouble, len(learner.avoided)
    )


def _state(shown: _Shown) -> Iterator[str]:
    if not shown.on:
        yield "iGLB is off: no switch follows a plan"
        return
    if shown.followed is None:
        yield "iGLB is on; no plan is in force"
    else:
        proof = shown.followed.plan.proof
        yield (
            f"iGLB is on; version {shown.version} is in force: {proof.planned_s * 1e3:.3f} ms for "
            f"a phase where no plan needs less than {proof.bound_s * 1e3:.3f} ms ({proof.kind})"
        )
    if shown.avoided:
        yield f"plans avoid {shown.avoided} links that are down or have just returned"
    if shown.trouble:
        yield f"{shown.trouble}; it is tried again"


def _jobs(topology: Topology, shown: _Shown) -> list[Sequence[str]]:
    followed = shown.followed
    assert followed is not None
    interfaces = list(topology.interfaces())
    rows: list[Sequence[str]] = []
    for name, job in shown.jobs.items():
        hosts = {interfaces[n].host for n in {*job.source.tolist(), *job.target.tolist()}}
        pinned = int(followed.by_entry[followed.plan.of(name)].sum())
        rows.append([name, str(len(hosts)), str(len(job)), str(pinned)])
    return rows


def _switches(
    running: Running, able: Sequence[str]
) -> tuple[list[Sequence[str]], dict[tuple[str, int], int], dict[Flow, int]]:
    """Return rows, packets without a pin by switch and port, and bytes by flow."""
    topology, controller = running.topology, running.controller
    pins = controller.ask(NAME, lambda learner: learner.in_force.pins)
    rows: list[Sequence[str]] = []
    unplanned: dict[tuple[str, int], int] = {}
    counted: dict[Flow, int] = {}
    for switch in able:
        version = followed(controller.read_entries(switch, PLAN_TABLE))
        hits = controller.read_hits(switch, PIN_TABLE)
        first = pins.first.get(switch, {})
        for entry, _, size in hits:
            flow = _flow(entry, version)
            if flow in first:
                counted[flow] = size
        counts = counts_of(topology, controller, COUNTER, switch)
        total = {label: sum(each[label] for each in counts.values()) for label in COUNTER.labels}
        unplanned |= {(switch, port): each["unplanned"] for port, each in counts.items()}
        rows.append([switch, str(version or "nothing"), str(len(hits)), COUNTER.text(total)])
    return rows, unplanned, counted


def _flow(entry: object, version: int) -> Flow:
    """Return the flow whose pin an entry is; none if it is of another version."""
    if isinstance(entry, TableEntry):
        key = {name: value.value for name, value in entry.match if isinstance(value, Exact)}
        if key["version"] == version:
            return key["src"], key["dst"], key["udp_port"]
    return 0, 0, 0


def _lies(
    topology: Topology,
    shown: _Shown,
    unplanned: Mapping[tuple[str, int], int],
    counted: Mapping[Flow, int],
) -> Iterator[str | Rows]:
    assert shown.followed is not None
    lies: list[Lie] = [
        *undeclared(topology, shown.jobs, unplanned),
        *shares(topology, shown.followed, counted),
    ]
    if lies:
        rows = [[each.job or "none", each.host, each.what] for each in lies]
        yield Rows(["job", "host", "what it sent"], rows, "other than declared")
    else:
        yield "all jobs send what they declared"


WORDS = (
    Word(
        "iglb",
        "[on|off]",
        "jobs, the plan of their paths and its state, and jobs that send other than declared",
        _iglb,
        """\
iglb       jobs, the plan and how good it is, pins by switch, and what jobs sent that they had not
           declared
iglb off   switches follow no plan: flows take load balancing's paths, or the ECMP hash's
iglb on    jobs are planned again
Off stays off, whatever links and switches do, until iglb on or the end of the run; help:
docs/iglb.md.""",
        ON_OFF,
    ),
)
