"""What a scheduler can say of a run's jobs before they start: flows, and which are busy when.

It follows from a job's split, placement and phases, as they stand in its file: nothing is measured.
A phase of a job is one set of flows. An all-to-all is one for each of its steps, from every rank to
the one so many ranks on: that each step has its paths to itself also shares out their sum evenly.
Phases that come again with the same flows are declared once, one that runs in the background beside
every later phase of its iteration. Entries of `traffic` that are made of messages are jobs, too.
A queue pair over all interfaces of its hosts is a flow for each, with the share of its rate.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from controller.jobs import DeclaredJob, FlowSet
from workloads.dag import Numbers
from workloads.job_schema import CollectiveEntry, JobEntry
from workloads.model import RunFile, Span, SpanKind, Traffic
from workloads.source_ports import chooser_of

DIRECT = "direct"
PS_PER_S = 10**12
MOST_PLACES = 1 << 30
"""Above all phases that an iteration has."""
MOST_LINES = 1 << 16
"""More than the interfaces that one queue pair has."""


@dataclass(frozen=True, eq=False)
class Declaration:
    """A job as it is declared; `flows[i]`: the number in the run's traffic of its flow i.

    A flow of the traffic that uses several interfaces is several of the job's.
    """

    job: DeclaredJob
    flows: Numbers


def with_chosen_ports(run: RunFile, traffic: Traffic) -> Traffic:
    """Return the traffic with the source ports that the fabric wants, if it takes jobs.

    Queue pairs that choose among several ports themselves keep them, and those that send by several
    interfaces. Raises TopologyError where it can't carry a job's flows.
    """
    if run.transport is not None and run.transport.source_ports > 1:
        return traffic
    if _over_several(traffic):
        return traffic
    chooser = chooser_of(run.topology)
    told = () if chooser is None else declarations(run, traffic)
    if chooser is None or not told:
        return traffic
    chosen = chooser.ports(run.topology, tuple(each.job for each in told))
    if chosen is None:
        return traffic
    flows = traffic.flows.copy()
    for each, ports in zip(told, chosen, strict=True):
        flows["udp_port"][each.flows] = ports
    return replace(traffic, flows=flows)


def with_late_starts(run: RunFile, traffic: Traffic) -> RunFile:
    """Return the run with jobs that start when the fabric wants, if it takes jobs.

    Only those that repeat iterations; the same object where none is to start later.
    """
    chooser = chooser_of(run.topology)
    repeated = [number for number, job in enumerate(run.jobs) if job.iterations > 1]
    if chooser is None or not chooser.rotates(run.topology) or len(repeated) < 2:
        return run
    names = [span.name for span in traffic.spans if span.kind is SpanKind.JOB]
    told = {each.job.name: each.job for each in declarations(run, traffic)}
    repeated = [number for number in repeated if names[number] in told]
    declared = [told[names[number]] for number in repeated]
    late = chooser.late_ps(run.topology, declared, [run.jobs[n].start for n in repeated])
    if not any(late):
        return run
    jobs = list(run.jobs)
    for number, by in zip(repeated, late, strict=True):
        jobs[number] = jobs[number].model_copy(update={"start": jobs[number].start + by})
    return replace(run, jobs=tuple(jobs))


@dataclass(frozen=True, eq=False)
class _Part:
    """Flows of the traffic that are busy together, with their bytes; `place`: of its phase."""

    name: str
    place: int
    flow: Numbers
    bytes: Numbers


def declared_jobs(run: RunFile, traffic: Traffic) -> tuple[DeclaredJob, ...]:
    """Return what a run's jobs and messages are declared as."""
    return tuple(each.job for each in declarations(run, traffic))


def declarations(run: RunFile, traffic: Traffic) -> tuple[Declaration, ...]:
    """Return the same with the traffic's flows."""
    collectives = _Collectives(traffic)
    jobs = iter(run.jobs)
    found = []
    for number, span in enumerate(traffic.spans):
        if span.kind is SpanKind.JOB:
            entry = next(jobs)
            begins: list[int] = []
            parts = list(_phases(collectives, number, entry, begins))
            computing = _computing(entry, begins)
        elif span.kind is SpanKind.TRAFFIC:
            parts = [_Part(span.name, 0, *collectives.messages(span.first, span.stop))]
            computing = ()
        else:
            continue
        declared = _declaration(traffic, span.name, parts)
        found.append(replace(declared, job=replace(declared.job, computing=computing)))
    return tuple(each for each in found if len(each.job))


def _phases(
    collectives: _Collectives, job: int, entry: JobEntry, begins: list[int]
) -> Iterator[_Part]:
    """Yield what a job sends, phase by phase of one iteration; `begins` gets their first places."""
    phases = [each for each in entry.phases if each.compute is None]
    spans = collectives.phases_of(job)[: len(phases)]
    places = 0
    behind: list[tuple[str, Numbers, Numbers]] = []
    last: list[list[tuple[str, Numbers, Numbers]]] = []  # in the background, and nothing follows
    for phase, span in zip(phases, spans, strict=True):
        steps = list(collectives.steps(span))
        begins.append(places)
        if phase.background:
            behind += steps
            last.append(steps)
            continue
        for place, step in enumerate(steps):
            yield _Part(step[0], places + place, *step[1:])
        for name, flow, size in behind:
            for place in range(len(steps)):
                yield _Part(name, places + place, flow, size)
        if steps:
            last.clear()
        places += len(steps)
    for steps in last:
        for place, step in enumerate(steps):
            yield _Part(step[0], places + place, *step[1:])


def _computing(entry: JobEntry, begins: list[int]) -> tuple[tuple[int, float], ...]:
    """Return how long ranks compute before each place of `_phases`, in seconds.

    What they compute between repetitions of a step counts before the first one. Pipelines' stages,
    and what is computed beside a step, are left out.
    """
    places = iter(begins)
    found: dict[int, int] = {}
    waiting = 0
    for phase in entry.phases:
        if phase.compute is not None:
            waiting += phase.compute
            continue
        values = [getattr(step, step.kind) for step in phase.parallel or [phase]]
        gaps = [v.repeat * v.compute for v in values if isinstance(v, CollectiveEntry)]
        place = next(places)
        found[place] = found.get(place, 0) + waiting + max(gaps, default=0)
        waiting = 0
    found[MOST_PLACES] = waiting
    return tuple((place, ps / PS_PER_S) for place, ps in found.items() if ps)


class _Collectives:
    """What a run's collectives send: kept messages, and those that are made as they are due."""

    def __init__(self, traffic: Traffic) -> None:
        self.traffic = traffic
        self._children: dict[int, list[int]] = {}
        for number, span in enumerate(traffic.spans):
            self._children.setdefault(span.parent, []).append(number)
        due = () if traffic.due is None else traffic.due.collectives
        self._due = {each.span: each.placed for each in due}

    def phases_of(self, job: int) -> list[int]:
        """Return the numbers of a job's phases, in turn."""
        return self._children.get(job, [])

    def messages(self, first: int, stop: int) -> tuple[Numbers, Numbers]:
        """Return the flows of messages, and what each carries of them."""
        rows = self.traffic.messages.messages[first:stop]
        rows = rows[rows["bytes"] > 0]
        return _summed(rows["flow"].astype(np.int64), rows["bytes"].astype(np.int64))

    def steps(self, phase: int) -> Iterator[tuple[str, Numbers, Numbers]]:
        """Yield what a phase sends: everything together, an all-to-all step by step."""
        spans = self._children.get(phase, [])
        if not spans:
            return
        name = self.traffic.spans[phase].name
        sent = [self._sent(each) for each in spans]
        flow, size = (np.concatenate([each[i] for each in sent]) for i in (0, 1))
        at_once = [not self.traffic.spans[each].algorithm.startswith(DIRECT) for each in spans]
        if any(at_once) or not len(flow):
            yield name, *_summed(flow, size)
            return
        step = np.concatenate([_steps(self.traffic, each[0]) for each in sent])
        for number in range(int(step.max()) + 1):
            of = step == number
            yield f"{name} step {number}", *_summed(flow[of], size[of])

    def _sent(self, number: int) -> tuple[Numbers, Numbers]:
        if number in self._due:
            placed = self._due[number]
            pattern = placed.pattern
            return placed.flows, (pattern.counts() * pattern.sizes()).sum(axis=0)
        span: Span = self.traffic.spans[number]
        return self.messages(span.first, span.stop)


def _steps(traffic: Traffic, flow: Numbers) -> Numbers:
    """Return how many other targets each flow's source has had before this flow's, in its order."""
    rows = traffic.flows[flow]
    ends = [rows[key].astype(np.int64) for key in ("src", "src_port", "dst", "dst_port")]
    source = ends[0] << 32 | ends[1]
    pairs, first, pair = np.unique(np.stack(ends), axis=1, return_index=True, return_inverse=True)
    del pairs
    order = np.lexsort((first, source[first]))
    begins = np.flatnonzero(np.diff(source[first][order], prepend=-1))
    rank = np.empty(len(first), dtype=np.int64)
    count = np.diff(np.append(begins, len(first)))
    rank[order] = np.arange(len(first)) - np.repeat(begins, count)
    found: Numbers = rank[pair.ravel()]
    return found


class _Shares:
    """Which queue pairs carry a flow's messages together: equal parts are what is planned with."""

    def __init__(self, traffic: Traffic) -> None:
        self._count = np.ones(len(traffic.flows), dtype=np.int64)
        self._count[traffic.stripes["flow"]] = traffic.stripes["queue_pairs"]

    def of(self, part: _Part) -> _Part:
        """Return a part with all queue pairs in the place of the first ones."""
        count = self._count[part.flow]
        if (count == 1).all():
            return part
        number = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
        size, whole = np.repeat(part.bytes, count), np.repeat(count, count)
        share = size // whole + (number < size % whole)
        flow = np.repeat(part.flow, count) + number
        return replace(part, flow=flow[share > 0], bytes=share[share > 0])


class _Lines:
    """Which interfaces carry a flow: from here on a flow's number is `flow * MOST_LINES + line`."""

    def __init__(self, traffic: Traffic) -> None:
        self._traffic = traffic
        self._count = np.maximum(traffic.flows["interfaces"].astype(np.int64), 1)
        topology = traffic.topology
        rates = [topology.link_at(i.host, i.number).rate_bps for i in topology.interfaces()]
        self._rate = np.array(rates, dtype=np.int64)

    def of(self, part: _Part) -> _Part:
        """Return a part with a flow for each interface, which has its rate's share of the bytes."""
        count = self._count[part.flow]
        if (count == 1).all():
            return replace(part, flow=part.flow * MOST_LINES)
        first = np.cumsum(count) - count
        line = np.arange(count.sum()) - np.repeat(first, count)
        flow = np.repeat(part.flow, count)
        source, target = self.ends(flow, line)
        until = np.cumsum(np.minimum(self._rate[source], self._rate[target]) / 1e9)
        behind = until[first + count - 1]
        before = behind - np.add.reduceat(np.diff(until, prepend=0.0), first)
        reached = (until - np.repeat(before, count)) / np.repeat(behind - before, count)
        size = np.rint(reached * np.repeat(part.bytes, count)).astype(np.int64)
        share = np.diff(size, prepend=0)
        share[first] = size[first]
        kept = share > 0
        return replace(part, flow=(flow * MOST_LINES + line)[kept], bytes=share[kept])

    def ends(self, flow: Numbers, line: Numbers) -> tuple[Numbers, Numbers]:
        """Return the places of both interfaces of flows among all of the topology's."""
        rows = self._traffic.flows[flow]
        source, target = (
            _places(self._traffic, rows[end].astype(np.int64), rows[port].astype(np.int64) + line)
            for end, port in (("src", "src_port"), ("dst", "dst_port"))
        )
        return source, target


def _over_several(traffic: Traffic) -> bool:
    """Say whether some queue pairs use several interfaces: one source port for all of them."""
    return bool((traffic.flows["interfaces"] > 1).any())


def _summed(flow: Numbers, size: Numbers) -> tuple[Numbers, Numbers]:
    """Return flows, each once and in the order in which they come, and their bytes together."""
    distinct, first, place = np.unique(flow, return_index=True, return_inverse=True)
    total = np.bincount(place, size, minlength=len(distinct)).astype(np.int64)
    order = np.argsort(first, kind="stable")
    return distinct[order], total[order]


def _declaration(traffic: Traffic, name: str, parts: list[_Part]) -> Declaration:
    """Return a job of parts; those that only come again are left out."""
    known: set[tuple[int, bytes, bytes]] = set()
    kept = []
    shares, lines = _Shares(traffic), _Lines(traffic)
    for part in (lines.of(shares.of(each)) for each in parts):
        key = (part.place, part.flow.tobytes(), part.bytes.tobytes())
        if len(part.flow) and key not in known:
            known.add(key)
            kept.append(part)
    none = np.empty(0, dtype=np.int64)
    numbers = np.unique(np.concatenate([none, *(part.flow for part in kept)]))
    sets = tuple(
        FlowSet(part.name, part.place, np.searchsorted(numbers, part.flow), part.bytes)
        for part in kept
    )
    flows, line = np.divmod(numbers, MOST_LINES)
    source, target = lines.ends(flows, line)
    ports = traffic.flows["udp_port"][flows].astype(np.int64)
    keeps = _over_several(traffic)
    return Declaration(DeclaredJob(name, source, target, ports, sets, keeps), flows)


def _places(traffic: Traffic, host: Numbers, port: Numbers) -> Numbers:
    """Return the places of hosts' interfaces among all of the topology's."""
    counts = [len(each.interfaces) for each in traffic.topology.hosts]
    before = np.cumsum([0, *counts])[:-1].astype(np.int64)
    found: Numbers = before[host] + port
    return found
