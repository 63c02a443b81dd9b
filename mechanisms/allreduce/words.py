"""The word `allreduce` at the prompt: jobs, their trees and slots, and what switches added."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mechanisms.allreduce.counters import ALLREDUCE as COUNTER
from mechanisms.allreduce.entries import NAME, TREE_TABLE
from mechanisms.allreduce.life import Jobs
from mechanisms.allreduce.plan_error import PlanError
from mechanisms.allreduce.settings import KEY, TREES
from mechanisms.contract import Rows, Running, Word, WordError
from mechanisms.on_off import counts_of, is_used, knowing
from topologies.errors import did_you_mean

_WORDS = ("on", "off", "start", "end")
_USAGE = "allreduce [on|off|start JOB|end JOB]"


@dataclass(frozen=True)
class _Shown:
    """What the controller says: whether it is on, and a row a job."""

    on: bool
    rows: Sequence[Sequence[str]]


def _allreduce(running: Running, rest: str) -> Iterator[str | Rows]:
    word, _, job = rest.partition(" ")
    job = job.strip()
    if word not in ("", *_WORDS) or (bool(job) != (word in ("start", "end"))):
        raise WordError(f"{_USAGE}, not {rest!r}")
    topology, controller = running.topology, running.controller
    used = topology.setting(KEY) is not None
    without = f"{topology.name} has no allreduce: switches add nothing"
    remedy = "in the topology: allreduce: {jobs: {training: {workers: all}}}"
    if not is_used("allreduce", word, used, without, remedy, _WORDS):
        yield without
        return
    switches = knowing(running, TREE_TABLE, COUNTER, "AllReduce")
    shown = controller.ask(NAME, _show)
    if shown is None:
        yield f"{topology.name} names no job in allreduce:"
        return
    if word in ("on", "off"):
        controller.switch_mechanism(NAME, word == "on")
        yield f"AllReduce in the network is {word}"
        return
    if word:
        _known(controller.ask(NAME, lambda jobs: list(jobs.plan.jobs)), job)
        try:
            controller.tell(
                NAME, lambda jobs: jobs.start(job) if word == "start" else jobs.end(job)
            )
        except PlanError as error:
            raise WordError(f"{error.subject}: {error.message}", error.right) from None
        shown = controller.ask(NAME, _show)
        yield f"job {job} {'started' if word == 'start' else 'ended'}"
    yield f"AllReduce in the network is {'on' if shown.on else 'off'}"
    columns = ["job", "number", "workers", "slots", "roots by tree", "dead", "rerouted"]
    yield Rows(columns, shown.rows, "jobs")
    yield from _counts(running, switches)


def _known(jobs: Sequence[str], job: str) -> None:
    if job not in jobs:
        raise WordError(f"no job {job!r}{did_you_mean(job, jobs)}", f"choose {', '.join(jobs)}")


def _show(jobs: Jobs | None) -> _Shown | None:
    """Return what a learner knows; asked in the controller's thread."""
    if jobs is None:
        return None
    rows = []
    for name, job in jobs.plan.jobs.items():
        each = jobs.running.get(name)
        if each is None:
            rows.append([name, str(job.number), str(len(job.workers)), "-", "-", "-", "0"])
            continue
        base = each.job.base or 0
        roots = [each.trees[bits].root for bits in range(TREES)]
        dead = [str(bits) for bits in jobs.dead(name)]
        rows.append(
            [
                name,
                str(job.number),
                str(len(job.workers)),
                f"pool, server {job.server.host}"
                if job.server is not None
                else f"{base} to {base + job.slots - 1}",
                " ".join(roots),
                " ".join(dead) or "-",
                str(each.rerouted),
            ]
        )
    return _Shown(jobs.on, rows)


def _counts(running: Running, switches: Sequence[str]) -> Iterator[str | Rows]:
    topology = running.topology
    rows = []
    for switch in switches:
        for port, counts in counts_of(topology, running.controller, COUNTER, switch).items():
            if any(counts.values()):
                peer = str(topology.peer(switch, port))
                rows.append([f"{switch}:{port}", peer, COUNTER.text(counts)])
    if rows:
        yield Rows(["port", "from", "since the switch started"], rows, "packets of AllReduce")
    else:
        yield "no switch has added anything"


WORDS = (
    Word(
        "allreduce",
        "[on|off|start JOB|end JOB]",
        "jobs whose gradients the switches add up: trees, slots and packet counts",
        _allreduce,
        """\
allreduce             each job: its slots, its trees' roots, dead trees; what switches counted
allreduce end JOB     switches refuse the job's packets, and other jobs can have its slots
allreduce start JOB   it gets slots, and trees round the links that are down
allreduce off         switches refuse the packets of all jobs
allreduce on          again
Counts are since a switch started; help: docs/allreduce.md.""",
        _WORDS,
    ),
)
