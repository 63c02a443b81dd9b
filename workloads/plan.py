"""From a run file to what the engine sends: flows, streams, messages, script, and their names."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from topologies.errors import FieldPath, Problem, TopologyError
from topologies.model import Interface, Role
from topologies.reach import Reach
from workloads.check import ALL, check_ranks_meet, expand, incast_sources
from workloads.dag import FlowKind, FlowTable, MessageTable, Numbers
from workloads.declared import with_chosen_ports, with_late_starts
from workloads.due import DueCollective, DueTraffic, due_traffic
from workloads.frames import script_packets
from workloads.ideal import bounds
from workloads.in_network import Orders
from workloads.jobs import JobPlan
from workloads.limits import MAX_MESSAGES, job_messages
from workloads.mixes import mix_arrivals
from workloads.model import (
    NEVER_PS,
    STREAM,
    Records,
    RunFile,
    ScriptPacket,
    StreamKind,
    Traffic,
    carriers,
)
from workloads.path_choice import stripes
from workloads.paths import OVERHEAD, PathTable
from workloads.placement import find_interface, place
from workloads.randomness import Random
from workloads.schema import (
    CbrEntry,
    FlowSettings,
    IncastEntry,
    MatrixEntry,
    MessageEntry,
    MixEntry,
    PermutationEntry,
    ScriptEntry,
    TraceEntry,
)
from workloads.several import span
from workloads.spans import Spans
from workloads.traces import TracePlan

_PS = 10**12


def plan(run: RunFile, seed: int | None = None, *, keep: int = MAX_MESSAGES) -> Traffic:
    """Return what a run sends; `seed` (None: the file's) changes what is random, and UDP ports.

    `keep`: a run with more messages has those of rings and all-to-alls made as they are due.
    Raises TopologyError where a random placement joins what no way joins.
    """
    seed = run.seed if seed is None else seed
    traffic = _Plan(run, seed, keep).traffic()
    late = with_late_starts(run, traffic)
    return traffic if late is run else _Plan(late, seed, keep).traffic()


class _Plan:
    def __init__(self, run: RunFile, seed: int, keep: int) -> None:
        self.run = run
        self.seed = seed
        self.keep = keep
        self.due: list[DueCollective] = []
        self.orders = Orders.of(run)
        self.flows = FlowTable(run.topology, run.transport, seed=seed)
        self.messages = MessageTable()
        self.streams: list[tuple[int, ...]] = []
        self.script: list[ScriptPacket] = []
        self.spans = Spans()

    def traffic(self) -> Traffic:
        for number, entry in enumerate(self.run.traffic):
            name = f"{entry.kind} {number}"
            if entry.cbr is not None:
                self._stream(number, entry.cbr, StreamKind.CBR)
            elif entry.poisson is not None:
                self._stream(number, entry.poisson, StreamKind.POISSON)
            elif entry.incast is not None:
                self._incast(name, number, entry.incast)
            elif entry.mix is not None:
                self._mix(name, number, entry.mix)
            elif entry.message is not None:
                self._message(name, number, entry.message)
            elif entry.permutation is not None:
                self._permutation(name, number, entry.permutation)
            elif entry.matrix is not None:
                self._matrix(name, number, entry.matrix)
            elif entry.trace is not None:
                self._trace(name, number, entry.trace)
            else:
                self._script(number, entry.script or [])
        self._jobs()
        return self._result()

    def _jobs(self) -> None:
        problems: list[Problem] = []

        def report(path: FieldPath, message: str) -> None:
            problems.append(self.run.document.problem(path, message))

        jobs = list(zip(self.run.job_paths, self.run.jobs, strict=True))
        places = place(self.run.topology, jobs, self.seed, report)
        if not problems:  # of a random placement: what the file's own seed gave may be no more
            reach = Reach(self.run.topology)
            for (path, job), ranks in zip(jobs, places, strict=True):
                check_ranks_meet(self.run, reach, path, job, ranks, report)
        if problems:
            raise TopologyError(problems)
        tables = (self.flows, self.messages, self.spans)
        count = len(self.messages) + sum(map(job_messages, self.run.jobs))
        due = self.due if count > self.keep else None
        for number, (job, ranks) in enumerate(zip(self.run.jobs, places, strict=True)):
            name = job.name or (f"job {number}" if len(jobs) > 1 else "job")
            random = Random(self.seed, "computing", name) if job.jitter else None
            JobPlan(job, name, ranks, tables, due, self.orders, random).plan()

    def _result(self) -> Traffic:
        flows = self.flows.records()
        table = self.flows.path_table()
        tops = {Role.CORE, Role.SPINE}
        has_top = any(switch.role in tops for switch in self.run.topology.switches)
        stripes = self.flows.stripes()
        carrying = carriers(flows, stripes)
        bound = bounds(self.run.topology, self.messages.arrays(), carrying, table)
        due = due_traffic(self.due, lambda placed: bound.of_pattern(placed).alone_ps)
        traffic = Traffic(
            topology=self.run.topology,
            flows=flows,
            streams=np.array(self.streams, dtype=STREAM),
            messages=bound.arrays,
            ideal_ps=bound.alone_ps,
            script=tuple(sorted(self.script, key=lambda packet: packet.at_ps)),
            spans=tuple(self.spans.finished(bound)),
            transports=self.flows.transports(),
            core_share=_top_share(has_top, table, bound.arrays.messages, due),
            due=due,
            stripes=stripes,
            orders=() if self.orders is None else tuple(self.orders.rows),
        )
        return with_chosen_ports(self.run, traffic)

    # --- the kinds of traffic --------------------------------------------------------------

    def _flows(
        self,
        name: str,
        sources: Sequence[Interface],
        targets: Sequence[Interface],
        entry: FlowSettings,
        rate_bps: int | None = None,
    ) -> Numbers:
        """Return the flows from each of `sources` to the one at the same place of `targets`."""
        kind = FlowKind(
            name,
            entry.dscp,
            entry.queue,
            entry.payload,
            entry.udp_port,
            rate_bps or 0,
            entry.transport == "none" or isinstance(entry, CbrEntry),
            entry.operation,
        )
        n = self._queue_pairs(entry)
        source, target = (np.repeat(self.flows.places(each), n) for each in (sources, targets))
        return self.flows.flows(kind, source, target, np.tile(np.arange(n), len(sources)))

    def _queue_pairs(self, entry: FlowSettings) -> int:
        """Return into how many messages one is cut, for as many flows that follow each other."""
        open_loop = entry.transport == "none" or isinstance(entry, CbrEntry)
        return 1 if open_loop or self.run.transport is None else self.run.transport.equal_stripes

    def _after(self, later: Numbers, earlier: Numbers, n: int) -> None:
        """Let all `n` stripes of each message wait for all those of the one at its place."""
        waiting = np.repeat(later.reshape(-1, n), n, axis=1)
        self.messages.wait(waiting.ravel(), np.tile(earlier.reshape(-1, n), (1, n)).ravel())

    def _pairs(self, entry: CbrEntry | MessageEntry) -> tuple[list[Interface], list[Interface]]:
        pairs = [
            (source, target)
            for source in self._interfaces(entry.source)
            for target in self._interfaces(entry.to)
            if source != target
        ]
        return [source for source, _ in pairs], [target for _, target in pairs]

    def _interfaces(self, names: list[str]) -> list[Interface]:
        found = (
            find_interface(self.run.topology, name, lambda _: None)
            for name in expand(self.run.topology, names)
        )
        return [interface for interface in found if interface is not None]

    def _stream(self, number: int, entry: CbrEntry, kind: StreamKind) -> None:
        flows = self._flows(f"traffic {number}", *self._pairs(entry), entry)
        stop = NEVER_PS if entry.stop is None else entry.stop
        for flow in flows.tolist():
            payload = self.flows.payload_of(flow)
            wire = payload + -payload % 4 + OVERHEAD
            interval_ps = -(-wire * 8 * _PS // entry.rate)
            seed = Random(self.seed, "stream", number, flow).word()
            row = (flow, int(kind), payload, seed, entry.start, stop, interval_ps)
            self.streams.append((*row, entry.packets or 0))

    def _incast(self, name: str, number: int, entry: IncastEntry) -> None:
        target = self._interfaces([entry.to])[0]
        sources = incast_sources(self.run.topology, entry)
        targets = [target] * len(sources)
        flows = self._flows(f"traffic {number}", sources, targets, entry, entry.rate)
        if entry.persistent:
            size = np.array([self._until_the_end(source, entry.start) for source in sources])
            size = np.repeat(size, self._queue_pairs(entry))
            added = self.messages.add(flows, size, len(flows), start_ps=entry.start)
            self.spans.traffic(name, added, "persistent incast", endless=True)
            return
        size = stripes(np.full(len(sources), entry.bytes), self._queue_pairs(entry))
        before: Numbers | None = None
        for round_number in range(entry.rounds):
            start_ps = entry.start + round_number * (entry.every or 0)
            added = self.messages.add(flows, size, len(flows), start_ps=start_ps)
            if before is not None and entry.every is None:
                # A round begins when the one before it has ended everywhere.
                self.messages.wait(np.repeat(added, len(before)), np.tile(before, len(added)))
            called = f"{name} round {round_number}" if entry.rounds > 1 else name
            self.spans.traffic(called, added, "incast")
            before = added

    def _until_the_end(self, source: Interface, start_ps: int) -> int:
        """Return more bytes than an interface can send until the run ends, or all of its host."""
        topology = self.run.topology
        whole = span(self.run.transport)
        lines = topology.host(source.host).interfaces if whole else (source,)
        rate = sum(topology.link_at(line.host, line.number).rate_bps for line in lines)
        return rate * max((self.run.until_ps or 0) - start_ps, _PS // rate) // (8 * _PS) + 1

    def _message(self, name: str, number: int, entry: MessageEntry) -> None:
        sources, targets = self._pairs(entry)
        flows = self._flows(f"traffic {number}", sources, targets, entry, entry.rate)
        n = self._queue_pairs(entry)
        gap = np.full(entry.count * n, entry.gap, dtype=np.int64)
        gap[:n] = 0
        size = stripes(np.full(entry.count, entry.bytes), n)
        for of_pair, source, target in zip(flows.reshape(-1, n), sources, targets, strict=True):
            flow = np.tile(of_pair, entry.count)
            added = self.messages.add(flow, size, len(size), start_ps=entry.start, gap_ps=gap)
            self._after(added[n:], added[:-n], n)
            self.spans.traffic(f"{name} {source.end}->{target.end}", added, "message")

    def _permutation(self, name: str, number: int, entry: PermutationEntry) -> None:
        hosts = self._interfaces(entry.hosts or [ALL])
        if entry.shift is None:
            moved = Random(self.seed, "permutation", number).derangement(len(hosts))
        else:
            moved = [(i + entry.shift) % len(hosts) for i in range(len(hosts))]
        targets = [hosts[i] for i in moved]
        flows = self._flows(f"traffic {number}", hosts, targets, entry, entry.rate)
        n = self._queue_pairs(entry)
        before: Numbers | None = None
        every: list[Numbers] = []
        for _ in range(entry.count):
            gap_ps = 0 if before is None else entry.gap
            size, start_ps = stripes(np.full(len(hosts), entry.bytes), n), entry.start
            added = self.messages.add(flows, size, len(flows), start_ps=start_ps, gap_ps=gap_ps)
            if before is not None:
                self._after(added, before, n)
            every.append(added)
            before = added
        self.spans.traffic(name, np.concatenate(every), "permutation")

    def _mix(self, name: str, number: int, entry: MixEntry) -> None:
        hosts = self._interfaces(entry.hosts or [ALL])
        whole = span(self.run.transport) and entry.transport != "none"
        drawn = Random(self.seed, "mix", number)
        wanted = self._interfaces(entry.hotspot.hosts) if entry.hotspot is not None else []
        hot = [hosts.index(each) for each in wanted]
        arrivals = mix_arrivals(self.run.topology, hosts, entry, drawn, hot=hot, whole=whole)
        sources = [hosts[a] for a, _ in arrivals.pairs]
        targets = [hosts[b] for _, b in arrivals.pairs]
        flows = self._each(number, sources, targets, entry)
        n, count = self._queue_pairs(entry), len(flows)
        size, start_ps = stripes(arrivals.sizes, n), np.repeat(arrivals.at_ps, n)
        added = self.messages.add(flows, size, count, start_ps=start_ps)
        self.spans.traffic(name, added, f"mix {entry.sizes}")

    def _matrix(self, name: str, number: int, entry: MatrixEntry) -> None:
        hosts = self._interfaces(entry.hosts or [ALL])
        matrix = entry.matrix()
        rows = np.array(matrix.connections, dtype=np.int64)
        sources, targets = ([hosts[i] for i in rows[:, end].tolist()] for end in (0, 1))
        flows = self._each(number, sources, targets, entry)
        n = self._queue_pairs(entry)
        start_ps = np.repeat(rows[:, 3] + entry.start, n)
        added = self.messages.add(flows, stripes(rows[:, 2], n), len(flows), start_ps=start_ps)
        if matrix.waits:
            later, earlier = np.array(matrix.waits, dtype=np.int64).T
            of = added.reshape(-1, n)
            self._after(of[later], of[earlier], n)
        self.spans.traffic(name, added, "matrix")

    def _trace(self, name: str, number: int, entry: TraceEntry) -> None:
        hosts = self._interfaces(entry.hosts or [ALL])[: entry.trace().ranks]
        kind = FlowKind(
            f"traffic {number}",
            entry.dscp,
            entry.queue,
            entry.payload,
            entry.udp_port,
            entry.rate or 0,
            entry.transport == "none",
            entry.operation,
        )
        tables = (self.flows, self.messages, self.spans)
        TracePlan(name, entry, kind, self.flows.places(hosts), tables).plan()

    def _each(
        self,
        number: int,
        sources: Sequence[Interface],
        targets: Sequence[Interface],
        entry: MixEntry | MatrixEntry,
    ) -> Numbers:
        """Return a flow of its own for each message, so that each has its own way."""
        kind = FlowKind(
            f"traffic {number}",
            entry.dscp,
            entry.queue,
            entry.payload,
            entry.udp_port,
            entry.rate or 0,
            entry.transport == "none",
            entry.operation,
        )
        n = self._queue_pairs(entry)
        ends = (np.repeat(self.flows.places(each), n) for each in (sources, targets))
        return self.flows.each(kind, *ends)

    def _script(self, number: int, packets: list[ScriptEntry]) -> None:
        for i, packet in enumerate(packets):
            self.script += script_packets(self.run.topology, packet, number << 32 | i)


def _top_share(
    has_top: bool, table: PathTable, messages: Records, due: DueTraffic | None
) -> float | None:
    """Return the share of the messages' bytes that cross the fabric's top."""
    of_flow = np.zeros(len(table.top), dtype=np.int64)
    if due is not None:
        of_flow += due.bytes(len(of_flow))
    np.add.at(of_flow, messages["flow"].astype(np.int64), messages["bytes"].astype(np.int64))
    total = int(of_flow.sum())
    return int(of_flow[table.top].sum()) / total if total and has_top else None
