"""What a run file's schema can't see: names, pairs that do not meet, sizes that do not multiply."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import partial

from hostagent.programs.loader import check_settings, find
from hostagent.programs.program import ProgramError
from topologies.errors import FieldPath, Problem, TopologyError, did_you_mean
from topologies.fields import MAX_MOMENT_PS
from topologies.model import Interface, Topology
from topologies.reach import Reach
from topologies.units import format_duration
from workloads.flow_sizes import MIXES
from workloads.job_schema import (
    AllReduceEntry,
    AllToAllEntry,
    BroadcastEntry,
    CollectiveEntry,
    JobEntry,
    PipelineEntry,
    RootedEntry,
    StepEntry,
)
from workloads.limits import (
    MAX_DUE_MESSAGES,
    MAX_FLOWS,
    MAX_LINK_DELAY_PS,
    MAX_MESSAGES,
    MAX_SCRIPT,
    barriers,
    collective_flows,
    collective_messages,
    group_size,
    is_regular,
    mix_messages,
    sends_anything,
    trace_messages,
)
from workloads.model import RunFile
from workloads.path_choice import choice_problems
from workloads.placement import Report, find_interface, place
from workloads.planes import drain_problem, plane_problems
from workloads.program_files import file_of, sha256_of
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
from workloads.several import links_of, rank_problem, span, unjoined
from workloads.slow_motion import ParameterError
from workloads.transport import transport_for
from workloads.transport_schema import MAX_WINDOW, PAYLOADS, TransportFields

ETHERNET = 14
UDP_FRAME = ETHERNET + 20 + 8
ROCE_HEADERS = 20 + 8 + 12 + 4  # IPv4, UDP, BTH and ICRC: what an MTU counts beside the payload

ALL = "all"  # in the place of a list of hosts


def check(run: RunFile) -> None:
    """Raise TopologyError with every mistake of a run file; its topology is right already."""
    _Check(run).check()


def expand(topology: Topology, names: list[str]) -> list[str]:
    """Return a list of ends with 'all' replaced by every host."""
    if names == [ALL]:
        return [host.name for host in topology.hosts]
    return names


def incast_sources(topology: Topology, entry: IncastEntry) -> list[Interface]:
    """Return who sends: those that are named, or the first `senders` of the other hosts."""
    host = entry.to.partition(":")[0]
    if entry.source is None:
        names = [other.name for other in topology.hosts if other.name != host][: entry.senders]
    else:
        names = expand(topology, entry.source)
    target = find_interface(topology, entry.to, lambda _: None)
    found = (find_interface(topology, name, lambda _: None) for name in names)
    return [interface for interface in found if interface is not None and interface != target]


def steps_with_paths(path: FieldPath, job: JobEntry) -> Iterator[tuple[FieldPath, StepEntry]]:
    """Yield every step of a job's phases and where it stands."""
    for i, phase in enumerate(job.phases):
        if phase.parallel is None:
            yield (*path, "phases", i), phase
        for n, step in enumerate(phase.parallel or ()):
            yield (*path, "phases", i, "parallel", n), step


def check_ranks_meet(
    run: RunFile,
    reach: Reach,
    path: FieldPath,
    job: JobEntry,
    ranks: Sequence[Interface],
    report: Report,
) -> None:
    """Report the first rank of a job that rank 0 can't reach."""
    if span(run.transport) and run.transport is not None:
        why = rank_problem(run.topology, reach, run.transport, job, ranks)
        if why is not None:
            report((*path, "placement"), why)
            return
    for rank, interface in enumerate(ranks):
        if not reach.meet(ranks[0], interface):
            report(
                (*path, "placement"),
                f"rank 0 ({ranks[0].end}) can't reach rank {rank} ({interface.end}): no links join "
                f"{ranks[0].switch} and {interface.switch}; place them in one plane",
            )
            return


class _Check:
    def __init__(self, run: RunFile) -> None:
        self.run = run
        self.problems: list[Problem] = []
        self.reach = Reach(run.topology)
        self._messages = 0
        self._kept = 0
        self._spans = False  # the entry's queue pairs use all interfaces

    def check(self) -> None:
        slow = max((link.delay_ps for link in self.run.topology.links), default=0)
        if slow > MAX_LINK_DELAY_PS:
            most = MAX_LINK_DELAY_PS // 10**12
            message = f"a link has a delay of {slow // 10**12}s: at most {most}s"
            self._report(("topology",), message)
        if not self.run.traffic and not self.run.jobs and not self.run.programs:
            self._report((), "nothing to carry: give 'traffic', 'job' or 'programs'")
        for i, entry in enumerate(self.run.traffic):
            path = ("traffic", i, entry.kind)
            settings = getattr(entry, entry.kind)
            if isinstance(settings, FlowSettings):
                self._payload(path, settings.payload)
                self._reliable(path, settings)
                self._spans = (
                    span(self.run.transport)
                    and settings.transport != "none"
                    and not isinstance(settings, CbrEntry)
                )
            pairs = entry.cbr or entry.poisson or entry.message
            if pairs is not None:
                self._pairs(path, pairs)
            elif entry.incast is not None:
                self._incast(path, entry.incast)
            elif entry.mix is not None:
                self._mix(path, entry.mix)
            elif entry.permutation is not None:
                self._permutation(path, entry.permutation)
            elif entry.matrix is not None:
                self._matrix(path, entry.matrix)
            elif entry.trace is not None:
                self._trace(path, entry.trace)
            else:
                self._spans = False
            for n, packet in enumerate(entry.script or ()):
                self._script((*path, n), packet)
        self._transport()
        self._record()
        self._watched()
        self._receivers()
        self._programs()
        self._ends_some_time()
        jobs = list(zip(self.run.job_paths, self.run.jobs, strict=True))
        names: set[str] = set()
        for job_path, job in jobs:
            self._job(job_path, job)
            if job.name is not None and job.name in names:
                message = f"the name {job.name!r} is taken by another job: results go by name"
                self._report((*job_path, "name"), message)
            names.add(job.name or "")
        if not self.problems:
            places = place(self.run.topology, jobs, self.run.seed, self._report)
            if not self.problems:
                for (job_path, job), ranks in zip(jobs, places, strict=True):
                    check_ranks_meet(self.run, self.reach, job_path, job, ranks, self._report)
        if self.problems:
            raise TopologyError(self.problems)

    def _report(self, path: FieldPath, message: str) -> None:
        self.problems.append(self.run.document.problem(path, message))

    def _record(self) -> None:
        window, sample = self.run.paths_window_ps, self.run.sample_ps
        if window is None or window % sample == 0:
            return
        text = format_duration(window)
        message = (
            f"{text} is not a multiple of 'sample', {format_duration(sample)}: a window is made of "
            f"samples; write for example sample: {text}"
        )
        self._report(("record", "paths", "window"), message)

    def _watched(self) -> None:
        """Report flows to be recorded between hosts that there are not."""
        watched = self.run.watched
        hosts = [host.name for host in self.run.topology.hosts]
        for number, name in enumerate(watched.names if watched is not None else ()):
            for end in () if name.isdecimal() else name.split(">"):
                if end != "*" and end not in hosts:
                    message = f"{name}: no host {end!r}{did_you_mean(end, hosts)}"
                    path: FieldPath = ("record", "telemetry", "flows")
                    here = (*path, number)
                    there = here in self.run.document.positions
                    self._report(here if there else path, message)

    # --- traffic ---------------------------------------------------------------------------

    def _ends(self, path: FieldPath, names: Iterable[str]) -> list[Interface]:
        names = list(names)
        found: list[Interface] = []
        for i, name in enumerate(expand(self.run.topology, names)):
            here = (*path, i) if (*path, i) in self.run.document.positions else path
            interface = find_interface(self.run.topology, name, partial(self._report, here))
            if interface is not None:
                found.append(interface)
                self._whole_host(here, name)
        return found

    def _end(self, path: FieldPath, name: str) -> list[Interface]:
        """Return one end, or none where it is wrong."""
        found = find_interface(self.run.topology, name, partial(self._report, path))
        self._whole_host(path, name)
        return [] if found is None else [found]

    def _whole_host(self, path: FieldPath, name: str) -> None:
        if self._spans and ":" in name:
            host = name.partition(":")[0]
            message = f"{name}: the transport's queue pairs use all interfaces: write {host}"
            self._report(path, message)

    def _pairs(self, path: FieldPath, entry: CbrEntry | MessageEntry) -> None:
        sources = self._ends((*path, "from"), entry.source)
        targets = self._ends((*path, "to"), entry.to)
        if len(sources) == len(targets) == 1 and sources == targets:
            self._report((*path, "to"), f"{targets[0].end} would send to itself")
        self._all_meet((*path, "to"), sources, targets)
        if isinstance(entry, MessageEntry):
            self._count((*path, "count"), len(sources) * len(targets) * entry.count)
        if isinstance(entry, CbrEntry) and entry.stop is not None and entry.stop <= entry.start:
            self._report((*path, "stop"), "stop is not after start: nothing would be sent")

    def _incast(self, path: FieldPath, entry: IncastEntry) -> None:
        targets = self._end((*path, "to"), entry.to)
        if entry.source is not None:
            sources = self._ends((*path, "from"), entry.source)
            if targets and targets[0] in sources and entry.source != [ALL]:
                self._report((*path, "from"), f"{targets[0].end} would send to itself")
        else:
            others = len(self.run.topology.hosts) - 1
            if (entry.senders or 0) > others:
                message = f"{entry.senders} senders, but there are {others} other hosts"
                self._report((*path, "senders"), message)
            sources = incast_sources(self.run.topology, entry)
        self._all_meet((*path, "to"), sources, targets)
        self._count((*path, "rounds"), len(sources) * entry.rounds)
        self._end_in_time((*path, "rounds"), entry.rounds * (entry.every or 0))

    def _mix(self, path: FieldPath, entry: MixEntry) -> None:
        sizes = entry.distribution()
        if sizes is None:
            there = f"; available: {', '.join(MIXES)}; or a file (cdf.txt), or one size (64kB)"
            hint = did_you_mean(entry.sizes, MIXES) or there
            self._report((*path, "sizes"), f"no flow-size mix {entry.sizes!r}{hint}")
        where = (*path, "hosts") if entry.hosts else path
        hosts = self._ends(where, entry.hosts or [ALL])
        if len(hosts) < 2:
            self._report(where, "a mix needs at least two hosts")
        self._all_meet(where, hosts, hosts)
        if entry.hotspot is not None:
            for each in self._ends((*path, "hotspot", "hosts"), entry.hotspot.hosts):
                if each not in hosts:
                    message = f"{each.end} is none of the mix's hosts"
                    self._report((*path, "hotspot", "hosts"), message)
        if entry.stop <= entry.start:
            self._report((*path, "stop"), "stop is not after start: nothing would be sent")
        elif sizes is not None:
            links = links_of(self.run.topology, hosts, whole=self._spans)
            rates_bps = sum(link.rate_bps for link in links)
            count = mix_messages(entry, sizes, rates_bps)
            self._count((*path, "stop"), count)

    def _permutation(self, path: FieldPath, entry: PermutationEntry) -> None:
        where = (*path, "hosts") if entry.hosts else path
        hosts = self._ends(where, entry.hosts or [ALL])
        if len(hosts) < 2:
            self._report(where, "a permutation needs at least two hosts")
        twice = [name for name, times in Counter(end.host for end in hosts).items() if times > 1]
        if twice:
            self._report(where, f"{twice[0]} is there twice: each host sends to one other host")
        self._all_meet(where, hosts, hosts)
        if entry.shift is not None and hosts and entry.shift % len(hosts) == 0:
            message = f"with {len(hosts)} hosts each would send to itself: 1 to {len(hosts) - 1}"
            self._report((*path, "shift"), message)
        self._count((*path, "count"), len(hosts) * entry.count)

    def _matrix(self, path: FieldPath, entry: MatrixEntry) -> None:
        hosts = self._ends((*path, "hosts") if entry.hosts else path, entry.hosts or [ALL])
        matrix = entry.matrix()
        key = next(
            key for key in ("htsim", "hpcc", "csv", "bytes") if getattr(entry, key) is not None
        )
        if len(hosts) < matrix.nodes:
            message = f"{matrix.nodes} nodes, but there are {len(hosts)} hosts"
            self._report((*path, key), message)
            return
        sources = {source for source, *_ in matrix.connections}
        targets = {target for _, target, *_ in matrix.connections}
        ends = ([hosts[i] for i in sorted(places)] for places in (sources, targets))
        for source, target, *_ in matrix.connections:
            if hosts[source] == hosts[target]:
                self._report((*path, "hosts"), f"{hosts[source].end} would send to itself")
                break
        self._all_meet((*path, key), *ends)
        self._count((*path, key), len(matrix.connections))

    def _trace(self, path: FieldPath, entry: TraceEntry) -> None:
        where = (*path, "hosts") if entry.hosts else path
        hosts, ranks = self._ends(where, entry.hosts or [ALL]), entry.trace().ranks
        if len(hosts) < ranks:
            self._report((*path, "chakra"), f"{ranks} ranks, but there are {len(hosts)} hosts")
            return
        hosts = hosts[:ranks]
        if len({end.host for end in hosts}) < ranks:
            self._report(where, "a host is there twice: each rank is a host")
        if not sends_anything(entry):
            self._report((*path, "chakra"), "no node sends anything: there is nothing to simulate")
        self._all_meet((*path, "chakra"), hosts, hosts)
        self._count((*path, "chakra"), trace_messages(entry))

    def _count(self, path: FieldPath, count: int, kept: int | None = None) -> None:
        """Count messages; `kept` (None: all): of which are not made as they are due."""
        before, self._messages = self._messages, self._messages + count
        stored, self._kept = self._kept, self._kept + (count if kept is None else kept)
        of = "" if self._kept == self._messages else " beside those of rings and all-to-alls"
        for now, found, most, which in (
            (stored, self._kept, MAX_MESSAGES, of),
            (before, self._messages, MAX_DUE_MESSAGES, ""),
        ):
            if now <= most < found:
                message = f"about {found} messages{which} up to here: a run has at most {most}"
                self._report(path, message)
                return

    def _end_in_time(self, path: FieldPath, time_ps: int) -> None:
        if time_ps > MAX_MOMENT_PS:
            message = f"the last one would come after more than {MAX_MOMENT_PS // 10**12}s"
            self._report(path, message)

    def _script(self, path: FieldPath, packet: ScriptEntry) -> None:
        sources = self._end((*path, "from"), packet.source)
        if packet.to is not None:
            targets = self._end((*path, "to"), packet.to)
            if sources and sources == targets:
                self._report((*path, "to"), f"{packet.to} would send to itself")
            self._all_meet((*path, "to"), sources, targets)
            if packet.bytes is not None and packet.bytes < UDP_FRAME:
                message = f"a UDP frame has at least {UDP_FRAME}B of headers, not {packet.bytes}B"
                self._report((*path, "bytes"), message)
        if packet.times > MAX_SCRIPT:
            self._report((*path, "times"), f"a packet comes at most {MAX_SCRIPT} times")
        self._end_in_time((*path, "times"), packet.times * (packet.every or 0))
        length = packet.bytes or len(packet.frame())
        mtu = (
            self.run.topology.link_at(sources[0].host, sources[0].number).mtu_bytes
            if sources
            else 0
        )
        if sources and length > mtu + ETHERNET:
            key = "hex" if packet.hex is not None else "bytes"
            message = f"a frame of {length}B: the link's MTU allows {mtu + ETHERNET}B"
            self._report((*path, key), message)

    def _receivers(self) -> None:
        hosts = [host.name for host in self.run.topology.hosts]
        for name in self.run.receivers:
            if name not in hosts:
                hint = did_you_mean(name, hosts) or f"; available: {hosts[0]} to {hosts[-1]}"
                self._report(("receivers", name), f"no host {name!r}{hint}")

    def _programs(self) -> None:
        hosts = [host.name for host in self.run.topology.hosts]
        for i, placed in enumerate(self.run.programs):
            path = ("programs", i)
            for name in placed.hosts:
                if name not in hosts:
                    hint = did_you_mean(name, hosts) or f"; available: {hosts[0]} to {hosts[-1]}"
                    self._report((*path, "hosts"), f"no host {name!r}{hint}")
            if len(set(placed.hosts)) < len(placed.hosts):
                self._report((*path, "hosts"), "a host is named twice")
            file = file_of(placed.program)
            if placed.sha256 is not None and file is not None:
                digest = sha256_of(self.run.directory / file)
                if digest is not None and digest != placed.sha256:
                    self._report((*path, "sha256"), f"{file} is another file than the one meant")
                    continue
            try:
                found = find(placed.program, self.run.directory)
            except ProgramError as error:
                self._report((*path, "program"), str(error))
                continue
            try:
                check_settings(placed.program, found, placed.settings)
            except ProgramError as error:
                self._report((*path, "settings"), str(error))

    def _transport(self) -> None:
        transport = self.run.transport
        drained = drain_problem(transport, self.run.topology)
        if drained is not None:
            self._report(("transport",) if transport is not None else (), drained)
        if transport is None:
            return
        self._payload(("transport",), transport.mtu, "mtu")
        most = MAX_WINDOW[transport.retransmission]
        if transport.window is not None and transport.window > most:
            message = f"{transport.retransmission} has at most {most} packets on the way"
            self._report(("transport", "window"), message)
        if transport.reorder is not None and transport.retransmission == "go-back-n":
            message = "go-back-n keeps nothing that comes early: write selective-repeat"
            self._report(("transport", "reorder"), message)
        operations = self._operations(transport)
        has_graphs = bool(self.run.jobs) or any(entry.trace for entry in self.run.traffic)
        for key, message in choice_problems(transport, operations, has_graphs):
            self._report(("transport", key), message)
        for key, message in plane_problems(transport, self.run.topology):
            self._report(("transport", key), message)
        self._ack_class(transport.ack_class, operations)
        for rate in self._line_rates():
            try:
                transport_for(transport, rate)
            except ParameterError as error:
                self._report(("transport", "parameters"), str(error))
                return

    def _line_rates(self) -> list[int]:
        topology = self.run.topology
        if not span(self.run.transport):
            return sorted({link.rate_bps for link in topology.links})
        return sorted(
            {
                sum(topology.link_at(i.host, i.number).rate_bps for i in host.interfaces)
                for host in topology.hosts
            }
        )

    def _operations(self, transport: TransportFields) -> set[str]:
        """Return which operations the run's flows have."""
        told = (getattr(entry, entry.kind) for entry in self.run.traffic)
        own = (each.operation for each in told if isinstance(each, FlowSettings))
        return {transport.operation, *(each for each in own if each is not None)}

    def _ack_class(self, name: str | None, operations: set[str]) -> None:
        path = ("transport", "ack_class")
        known = [each.name for each in self.run.topology.classes if each.dscps]
        if name is None:
            return
        if name not in known:
            there = f"available: {', '.join(known)}" if known else "it has none with a DSCP"
            hint = did_you_mean(name, known) or f": {there}"
            self._report(path, f"the topology has no class {name!r}{hint}")
        if "read" in operations:
            message = (
                "READs have no acknowledgements that could go apart: their responses are these"
            )
            self._report(path, message)

    def _reliable(self, path: FieldPath, settings: FlowSettings) -> None:
        """Check what only a transport gives, and what it asks for."""
        transport = self.run.transport
        if transport is None or settings.transport == "none" or isinstance(settings, CbrEntry):
            if settings.operation is not None:
                message = "an open-loop flow has no operations: give the run a 'transport'"
                if isinstance(settings, CbrEntry):
                    message = "packets at given times are always open loop, without operations"
                self._report((*path, "operation"), message)
            return
        several = transport.source_ports
        if settings.udp_port is not None and settings.udp_port + several > 1 << 16:
            message = (
                f"{several} UDP ports from {settings.udp_port} on end behind 65535: at most "
                f"{(1 << 16) - several}"
            )
            self._report((*path, "udp_port"), message)
        if settings.udp_port is not None and transport.queue_pairs > 1:
            message = (
                f"{transport.queue_pairs} queue pairs with one source port take one way: leave "
                "'udp_port' out, and each has its own"
            )
            self._report((*path, "udp_port"), message)
        if settings.payload is not None and settings.payload not in PAYLOADS:
            message = (
                f"with a transport a packet carries 256B, 512B, 1024B, 2048B or 4096B, not "
                f"{settings.payload}B; or make the entry open loop: transport: none"
            )
            self._report((*path, "payload"), message)

    def _payload(self, path: FieldPath, payload: int | None, key: str = "payload") -> None:
        mtu = min((link.mtu_bytes for link in self.run.topology.links), default=0)
        if payload is not None and payload > mtu - ROCE_HEADERS:
            message = (
                f"{payload}B do not fit the MTU of {mtu}B behind {ROCE_HEADERS}B of headers: give "
                f"at most {mtu - ROCE_HEADERS}B, or the links 'mtu: {payload + ROCE_HEADERS}B'"
            )
            self._report((*path, key), message)

    def _all_meet(
        self, path: FieldPath, sources: Iterable[Interface], targets: Iterable[Interface]
    ) -> None:
        """Report the first pair that no way joins."""
        sources, targets = list(sources), list(targets)
        if self._spans and self.run.transport is not None:
            ends = (sources, targets)
            why = unjoined(self.run.topology, self.reach, self.run.transport, *ends)
            if why is not None:
                self._report(path, why)
            return
        islands = self.reach.islands
        firsts: dict[int, Interface] = {}
        for source in sources:
            firsts.setdefault(islands[source.switch], source)
        for target in targets:
            for island, source in firsts.items():
                if island != islands[target.switch]:
                    message = (
                        f"{source.end} can't reach {target.end}: no links join {source.switch} "
                        f"and {target.switch}; name interfaces of one plane or rail"
                    )
                    self._report(path, message)
                    return

    def _ends_some_time(self) -> None:
        if self.run.until_ps is not None:
            return
        for i, entry in enumerate(self.run.traffic):
            path = ("traffic", i, entry.kind)
            stream = entry.cbr or entry.poisson
            endless = stream is not None and stream.stop is None and stream.packets is None
            if endless or (entry.incast is not None and entry.incast.persistent):
                message = "sends without end: give the run 'until: 20ms'"
                self._report(path, message + (", or 'stop' or 'packets' here" if stream else ""))

    # --- jobs ------------------------------------------------------------------------------

    def _job(self, path: FieldPath, job: JobEntry) -> None:
        self._sizes(path, job)
        self._payload(path, job.payload)
        if self.run.transport is not None and job.payload not in (None, *PAYLOADS):
            message = f"a transport's payloads are powers of two, 256B to 4096B, not {job.payload}B"
            self._report((*path, "payload"), message)
        if all(step.kind == "compute" for _, step in steps_with_paths(path, job)):
            self._report((*path, "phases"), "the job only computes: give it something to send")
        if job.stride is not None and job.placement != "stride":
            self._report((*path, "stride"), "'stride' is for placement: stride")
        for phase_path, step in steps_with_paths(path, job):
            value = getattr(step, step.kind)
            if isinstance(value, int):
                continue
            here = (*phase_path, step.kind)
            size = group_size(job, value.over)
            if size is None:
                message = f"over {value.over}, but the job has no ep: give 'ep: 2', for example"
                self._report((*here, "over"), message)
            elif size < 2 and not self.problems:
                message = f"groups of one rank: {value.over} is 1, so there is nothing to send"
                self._report((*here, "over"), message)
            elif size > 1:
                self._collective(here, job, value, size)

    def _collective(
        self, path: FieldPath, job: JobEntry, value: CollectiveEntry | PipelineEntry, size: int
    ) -> None:
        kept = barriers(job, value) if is_regular(value) else None
        self._count(path, collective_messages(job, value, size), kept)
        flows = collective_flows(job, value, size)
        if flows > MAX_FLOWS:
            message = f"{flows} pairs of ranks, each a flow: a run has at most {MAX_FLOWS}"
            self._report(path, f"{message}; give a larger 'fraction', or smaller groups")
        least = size * value.channels
        if value.bytes < least:
            message = f"{value.bytes}B are too few for {size} ranks: give at least {least}B"
            self._report((*path, "bytes"), message)
        inside = value.inside if isinstance(value, AllReduceEntry) else None
        if inside is not None and (size % inside or size == inside):
            message = f"{inside} in each place, and groups of {size}: no two places of so many"
            self._report((*path, "inside"), f"{message}, so give half of the group, or a third")
        if isinstance(value, RootedEntry | BroadcastEntry) and value.root >= size:
            message = f"root {value.root}: the groups have ranks 0 to {size - 1}"
            self._report((*path, "root"), message)
        if isinstance(value, AllToAllEntry) and value.fraction >= size:
            message = f"one rank in {value.fraction}: the groups have {size} ranks"
            self._report((*path, "fraction"), message)

    def _sizes(self, path: FieldPath, job: JobEntry) -> None:
        tp, pp, dp = job.tp or 1, job.pp or 1, job.dp
        if dp is None:
            if job.ranks % (tp * pp):
                message = f"tp x pp = {tp} x {pp} = {tp * pp} does not divide {job.ranks} ranks"
                self._report((*path, "ranks"), message)
                return
            dp = job.ranks // (tp * pp)
        if tp * pp * dp != job.ranks:
            message = f"tp x pp x dp = {tp} x {pp} x {dp} = {tp * pp * dp}, not {job.ranks} ranks"
            self._report((*path, "ranks"), message)
        elif job.ep is not None and dp % job.ep:
            message = f"ep {job.ep} does not divide dp {dp}: experts are spread over dp ranks"
            self._report((*path, "ep"), message)
