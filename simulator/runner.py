"""A run in virtual time, from a run file to its results.

    simulation = Simulation(load_run_file("incast-32"), program)
    end = simulation.run(out=Path("results"))

Nothing here prints. The same run file and seed give the same result files.
"""

from __future__ import annotations

import hashlib
import heapq
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from controller.fabric_state import FabricReady, LinkChanged
from controller.jobs import DeclaredJob, JobsSubmitted
from controller.policy import FabricPolicy
from controller.program import CompiledProgram
from controller.steering import SwitchPrograms
from hostagent.rnic.card_records import NO_CNPS, Repeat
from hostagent.rnic.planes import PlaneUse
from mechanisms.registry import counters
from simulator.buffers import buffer_end
from simulator.core.binding import NEVER, Engine, Pattern, Transport
from simulator.core.binding import Stop as EngineStop
from simulator.flow_paths import FlowPaths
from simulator.host_settings import apply_clocks, apply_receivers, receiver_ends
from simulator.pcap import PortCapture
from simulator.prepared import PreparedFabric
from simulator.programs import place_programs, place_workers, program_ends, start_programs
from simulator.result_due import DueEnd, Tally
from simulator.result_model import Records, RunEnd, RunIdentity, Stop, SwitchEnd
from simulator.result_paths import PathsEnd
from simulator.results import ResultWriter
from simulator.tickers import apply_port_report, apply_tickers
from simulator.watching import watch, what_is_watched
from softswitch.core import Direction
from topologies.events import DrainCall, LinksCall, PortCall, SwitchCall, calls
from topologies.model import CNP_DSCP, Endpoint, Link
from workloads.dag import OPERATIONS
from workloads.declared import declared_jobs
from workloads.due import DueTraffic
from workloads.model import RunFile, Traffic
from workloads.path_choice import path_settings
from workloads.plan import plan
from workloads.source_ports import chooser_of
from workloads.transport import Transport as PlannedTransport
from workloads.transport import class_of

if TYPE_CHECKING:
    from simulator.lock_step import LockStep

SLICE_EVENTS = 200_000
"""Events between two looks at the clock and at Ctrl-C."""

PS_PER_NS = 1000

MOST_PATHS = 20_000
"""Flows whose paths are looked for when a queue is paused at the end: a second or so."""


MOST_PATH_ROWS = 1 << 23
"""Pairs of a flow and a link, or a gap, that a run records: 400 MB in the engine."""


@dataclass(frozen=True)
class Progress:
    """How far a run has come."""

    now_ps: int
    until_ps: int | None
    messages: int
    messages_done: int
    hops: int
    cpu_s: float


@dataclass(frozen=True)
class Outcome:
    """How a run ended. `summary` is what summary.json holds (empty without `out`)."""

    stop: Stop
    end: RunEnd
    summary: dict[str, Any] = field(default_factory=dict)
    setup_s: float = 0.0
    cpu_s: float = 0.0


class Simulation:
    """One run: network and controller are made and installed; `run` runs it once."""

    def __init__(
        self,
        run: RunFile,
        program: CompiledProgram,
        *,
        seed: int | None = None,
        until_ps: int | None = None,
        time_scale: int = 1,
        versions: dict[str, str] | None = None,
        notice: Callable[[str], None] = lambda text: None,
        traffic: Traffic | None = None,
        prepared: PreparedFabric | None = None,
        programs: SwitchPrograms | None = None,
    ) -> None:
        """`seed`, `until_ps`: None takes the file's. `time_scale`: slow everything as real runs do.

        `traffic`: what it carries, planned already, in the place of the file's. `prepared`: its
        fabric, if it is set up already. `programs`: what its switches run beside `program`, where
        that is known already, else the topology says it. `notice` gets what is being made.
        Raises TopologyError, PipelineError, WriteFailed, CompileError, EntryFileError,
        ProgramError. `clients` (of the object): external controllers, if any.
        """
        started = time.monotonic()
        self.file = run
        self.seed = run.seed if seed is None else seed
        self.until_ps = run.until_ps if until_ps is None else until_ps
        self.versions = versions or {}
        notice("traffic")
        self.traffic: Traffic = plan(run, self.seed) if traffic is None else traffic
        self._dead: set[str] = set()
        self._away: set[str] = set()
        self._starts: Counter[str] = Counter()  # how often switches have returned
        self._taken: dict[str, tuple[int, int]] = {}  # by switches that returned, see _taken_by
        self._captures: list[PortCapture] = []
        self._agenda: list[tuple[int, int, Callable[[], None]]] = []
        self._actions = 0
        if prepared is None:
            prepared = PreparedFabric(
                *(run, program), seed=self.seed, time_scale=time_scale, notice=notice,
                programs=programs,
            )  # fmt: skip
        prepared.adopt(
            run, program, seed=self.seed, time_scale=time_scale, at=self.at, dead=self._away
        )
        self.fabric, self.control = prepared.fabric, prepared.control
        self.installed = prepared.installed
        if run.clocks is not None:
            apply_clocks(self.fabric, run.clocks, self.seed)
        apply_receivers(self.fabric, run.receivers)
        apply_tickers(self.fabric, self.seed)
        apply_port_report(self.fabric)
        if chooser_of(run.topology) is not None:
            notice("jobs")
            self._declare(declared_jobs(run, self.traffic))
        self._down: set[Link] = set()
        self.punts = 0
        self.clients: LockStep | None = None
        self.slice_events = SLICE_EVENTS
        notice("messages")
        self._offer()
        self._events()
        self.programs = (
            *place_programs(self.fabric, run.programs, run.directory),
            *place_workers(self.fabric, run, self.traffic, self.seed),
        )
        start_programs(self.fabric, self.programs)
        if self._held():
            self.engine.start_messages()
        self.setup_s = time.monotonic() - started

    @property
    def engine(self) -> Engine:
        """The engine underneath."""
        return self.fabric.engine

    # --- before it runs -------------------------------------------------------------------------

    def _offer(self) -> None:
        engine, traffic = self.engine, self.traffic
        nodes = np.array([self.fabric.nodes[h.name] for h in self.fabric.topology.hosts], np.uint32)
        flows = traffic.flows.copy()
        engine.add_transports([self._transport(each) for each in traffic.transports])
        if len(flows):
            flows["src"], flows["dst"] = nodes[flows["src"]], nodes[flows["dst"]]
            # A READ is asked for by the end that the data goes to.
            read = flows["operation"] == OPERATIONS["read"]
            for one, other in (("src", "dst"), ("src_port", "dst_port")):
                flows[one][read], flows[other][read] = flows[other][read], flows[one][read].copy()
            engine.add_flows(flows)
            engine.stripe_flows(traffic.stripes)
        if len(traffic.streams):
            engine.add_streams(traffic.streams)
        arrays = traffic.messages
        if len(arrays):
            engine.add_messages(arrays.messages, arrays.first, arrays.next, hold=self._held())
        if traffic.due is not None:
            self._offer_due(traffic.due)
        core = next(iter(self.fabric.switches.values())).device.core
        engine.add_script(
            [
                (
                    self.fabric.nodes[packet.source.node],
                    packet.source.port,
                    packet.at_ps,
                    packet.data + core.payload(packet.tail_seed, packet.tail_length),
                )
                for packet in traffic.script
            ]
        )
        engine.sample(self.file.sample_ps)
        if self.file.paths_window_ps is not None:
            engine.record_paths(MOST_PATH_ROWS)
        watch(self.file, self.traffic, engine, self.fabric.topology.time_scale)

    def _declare(self, jobs: Sequence[DeclaredJob]) -> None:
        """Notify the controller of jobs before they start, and first of what is down by then."""
        topology = self.fabric.topology
        for call in calls(topology):
            if isinstance(call, LinksCall) and not call.up and call.at_ns == 0:
                for link in call.links:
                    if all(topology.is_switch(end.node) for end in (link.a, link.b)):
                        self.control.take(LinkChanged(link, up=False), self._away)
        self.installed += self.control.take(JobsSubmitted(tuple(jobs))) if jobs else 0

    def _held(self) -> bool:
        """Say whether messages wait for what comes after them: collectives, or who carries them."""
        return self.traffic.due is not None or bool(self.traffic.orders)

    def _offer_due(self, due: DueTraffic) -> None:
        scale = self.fabric.topology.time_scale
        numbers: dict[int, int] = {}
        for placed, ideal_ps in zip(due.patterns, due.ideal_ps, strict=True):
            shape = placed.pattern
            pattern = Pattern(
                int(shape.kind),
                shape.ranks,
                shape.channels,
                shape.steps,
                shape.stride,
                shape.at_once,
                shape.size,
            )
            numbers[id(placed)] = self.engine.add_pattern(pattern, placed.flows, ideal_ps * scale)
        for each in due.collectives:
            self.engine.add_collective(numbers[id(each.placed)], each.heads, each.after)

    def _transport(self, planned: PlannedTransport) -> Transport:
        """Return a transport as it runs: at this time scale, CNPs in their class's queue."""
        scale = self.fabric.topology.time_scale
        interval_ns = planned.cnp_interval_ns(scale)
        return Transport(
            Repeat.SELECTIVE if planned.retransmission == "selective-repeat" else Repeat.GO_BACK_N,
            planned.ack_every,
            planned.window_packets,
            planned.retries,
            udp_ports=planned.udp_ports,
            **path_settings(planned.path_choice, scale),
            cnp_queue=FabricPolicy.of(self.fabric.topology).class_of_dscp.get(CNP_DSCP, 0),
            cnp_dscp=CNP_DSCP,
            timeout_ps=planned.timeout_ps * scale,
            reorder_ps=planned.reorder_ps * scale,
            congestion_control=planned.fields(scale),
            cnp_interval_ns=NO_CNPS if interval_ns is None else interval_ns,
            ack_class=class_of(self.fabric.topology, planned.ack_class),
            planes=planned.planes.with_time_scale(scale),
            link_delay_ps=planned.link_delay_ps * scale,
        )

    def _events(self) -> None:
        for call in calls(self.fabric.topology):
            at = call.at_ns * PS_PER_NS
            if isinstance(call, LinksCall):
                self.at(at, lambda call=call: self._switch_links(call))  # type: ignore[misc]
            elif isinstance(call, SwitchCall):
                self.at(at, lambda call=call: self._switch(call))  # type: ignore[misc]
            elif isinstance(call, DrainCall):
                self.at(at, lambda call=call: self._drain_interfaces(call))  # type: ignore[misc]
            else:
                self.at(at, lambda call=call: self._change_port(call))  # type: ignore[misc]

    def at(self, time_ps: int, action: Callable[[], None]) -> None:
        """Do something when virtual time reaches `time_ps`, after everything of that instant."""
        self._actions += 1
        heapq.heappush(self._agenda, (time_ps, self._actions, action))

    def _switch_links(self, call: LinksCall) -> None:
        for link in call.links:
            if (link in self._down) != call.up:
                continue
            (self._down.discard if call.up else self._down.add)(link)
            self.fabric.set_link(link, call.up)
            self._tell_link(link)

    def _drain_interfaces(self, call: DrainCall) -> None:
        for end in call.ends:
            self.fabric.drain(end, call.on)

    def _switch(self, call: SwitchCall) -> None:
        """Kill a switch, or restart it.

        From the first until the controller learns of the second, its session is gone (`_away`).
        """
        if (call.switch in self._dead) != call.up:
            return
        (self._dead.discard if call.up else self._dead.add)(call.switch)
        if call.up:
            self._taken[call.switch] = self._taken_by(call.switch)
            self.fabric.restart(call.switch)
            self._starts[call.switch] += 1
            start = self._starts[call.switch]
            self._later(lambda: self._returned(call.switch, start))
        else:
            self._away.add(call.switch)
        self.fabric.kill(call.switch, alive=call.up)
        for port in self.fabric.topology.ports_of(call.switch):
            self._tell_link(port.link)

    def _tell_link(self, link: Link) -> None:
        """Notify the controller of the present state of a link between switches."""
        ends = (link.a.node, link.b.node)
        if all(map(self.fabric.topology.is_switch, ends)):
            up = link not in self._down and not any(end in self._dead for end in ends)
            self._later(lambda: self._heard(LinkChanged(link, up)))

    def _returned(self, switch: str, start: int) -> None:
        """Let the controller fill a switch, unless it has been started once more since."""
        if self._starts[switch] == start:
            self._away -= {switch} - self._dead
            self._heard(FabricReady({switch: ()}))

    def _heard(self, event: LinkChanged | FabricReady) -> None:
        """Let the controller react."""
        self.control.take(event, self._away)

    def _later(self, action: Callable[[], None]) -> None:
        """Do something when the controller learns of what happens now."""
        delay = self.file.controller_delay_ps * self.fabric.topology.time_scale
        self.at(self.engine.now + delay, action)

    def _change_port(self, call: PortCall) -> None:
        self.fabric.change_port(call)

    def capture(self, path: Path, end: Endpoint) -> None:
        """Write a pcap file of what a port sends and receives."""
        node = self.fabric.nodes[end.node]
        self.engine.tap(node, end.port)
        hold_ps = max(link.delay_ps for link in self.fabric.topology.links)
        self._captures.append(PortCapture(path, node, end.port, hold_ps))

    # --- running --------------------------------------------------------------------------------

    def run(
        self,
        out: Path | None = None,
        progress: Callable[[Progress], None] | None = None,
    ) -> Outcome:
        """Run to the end or to `until_ps`. KeyboardInterrupt ends the run with the results so far.

        Raises ResultError when `out` can't be written, EngineError when memory runs out, and
        ProgramError when a program fails.
        """
        writer = self._writer(out) if out is not None else None
        before = time.process_time()
        try:
            stop = self._play(self.until_ps, writer, progress, before)
            self.engine.programs.stop()
        except KeyboardInterrupt:
            stop = Stop.INTERRUPTED
        except BaseException:
            if writer is not None:
                writer.abandon()
            raise
        cpu_s = time.process_time() - before
        self.engine.sample_rest()
        self._drain(writer)
        for capture in self._captures:
            capture.close()
        end = self.ended(stop)
        summary = writer.finish(end) if writer is not None else {}
        return Outcome(stop, end, summary, self.setup_s, cpu_s)

    def advance(self, until_ps: int) -> None:
        """Run to a time, to look at the state there; `run` and another `advance` go on from it.

        Raises EngineError and ProgramError as `run` does.
        """
        self._play(until_ps, None, None, 0.0, drain=False)

    def _writer(self, out: Path) -> ResultWriter:
        source = Path(self.file.file)
        digest = hashlib.sha256(source.read_bytes()).hexdigest() if source.is_file() else ""
        identity = RunIdentity(
            name=self.file.name,
            seed=self.seed,
            sample_ps=self.file.sample_ps,
            description=self.file.description,
            until_ps=self.until_ps,
            time_scale=self.fabric.topology.time_scale,
            paths_window_ps=self.file.paths_window_ps,
            **what_is_watched(self.file),
            run_file_sha256=digest,
            versions=self.versions,
        )
        links = self.fabric.topology.links
        return ResultWriter(out, self.traffic, identity, self.fabric.names, links)

    def _play(
        self,
        until_ps: int | None,
        writer: ResultWriter | None,
        progress: Callable[[Progress], None] | None,
        started: float,
        *,
        drain: bool = True,
    ) -> Stop:
        engine = self.engine
        last = NEVER if until_ps is None else until_ps
        while True:
            if self.clients is not None:
                self.clients.step()
            due = self._agenda[0][0] if self._agenda else NEVER
            target = min(last, due)
            with nullcontext() if self.clients is None else self.clients.going_on():
                stop = engine.run(target, budget=self.slice_events, to_the_end=until_ps is None)
            if stop is EngineStop.PUNT:
                punts = engine.take_punts()
                self.punts += len(punts)
                self.control.punted(punts if self.clients is None else self.clients.take(punts))
            elif stop is EngineStop.BUDGET:
                if drain:
                    self._drain(writer)
                if progress is not None:
                    progress(self._progress(started))
            elif stop is EngineStop.DONE:
                return Stop.DONE
            elif due <= last and due != NEVER:
                while self._agenda and self._agenda[0][0] <= max(due, engine.now):
                    heapq.heappop(self._agenda)[2]()
            elif stop is EngineStop.UNTIL:
                return Stop.UNTIL
            else:
                return Stop.IDLE if until_ps is None else Stop.UNTIL

    def _progress(self, started: float) -> Progress:
        totals = self.engine.totals()
        return Progress(
            self.engine.now,
            self.until_ps,
            totals.messages,
            totals.messages_done,
            totals.hops,
            time.process_time() - started,
        )

    def _drain(self, writer: ResultWriter | None) -> None:
        engine = self.engine
        for take, keep in (
            (engine.take_queue_samples, writer.queues if writer else None),
            (engine.take_link_samples, writer.links if writer else None),
            (engine.take_flow_samples, writer.flow_rates if writer else None),
            (engine.collecting.take, writer.telemetry if writer else None),
        ):
            while len(rows := take()):
                if keep is not None:
                    keep(rows)
        if self._captures:
            frames = engine.take_tapped()
            for capture in self._captures:
                capture.write(frames)

    # --- the end --------------------------------------------------------------------------------

    def ended(self, stop: Stop) -> RunEnd:
        """Return the present state as the run's end."""
        engine, traffic, topology = self.engine, self.traffic, self.fabric.topology
        flow_stats = engine.flow_stats(0, len(traffic.flows))
        switches = {name: self._switch_end(name) for name in self.fabric.switches}
        return RunEnd(
            stop=stop,
            now_ps=engine.now,
            totals={**asdict(engine.totals()), "punts": self.punts, **self.control.loop.totals()},
            counters=self._counters(),
            receivers=receiver_ends(self.fabric, self.file.receivers),
            programs=program_ends(self.fabric, self.programs),
            flow_stats=flow_stats,
            message_times=engine.message_times(0, len(traffic.messages)),
            due=self._due_end(),
            paths=self._paths_end(),
            switches=switches,
            flow_paths=self._flow_paths(flow_stats, switches),
            planes=self._planes_end(),
            migrations=self._migrations_end(),
            transport_stats=(
                engine.transport_stats(0, len(traffic.flows)) if traffic.transports else None
            ),
            host_ports={
                (host.name, interface.number): asdict(
                    engine.host_port_stats(self.fabric.nodes[host.name], interface.number)
                )
                for host in topology.hosts
                for interface in host.interfaces
            },
        )

    def _due_end(self) -> DueEnd | None:
        engine, due = self.engine, self.traffic.due
        if due is None:
            return None
        stats = engine.collective_stats(0, len(due.collectives))
        return DueEnd(
            stats,
            [Tally.of_rows(engine.collective_spread(number), each.completion_ps)
             for number, each in enumerate(stats)],
            [Tally.of_rows(engine.collective_spread(number, slowdown=True), each.slowdown_ppm)
             for number, each in enumerate(stats)],
            engine.flow_messages(0, len(self.traffic.flows)),
        )  # fmt: skip

    def _paths_end(self) -> PathsEnd | None:
        engine = self.engine
        if self.file.paths_window_ps is None:
            return None
        orders = engine.flow_orders(0, len(self.traffic.flows))
        return PathsEnd(engine.path_rows(), engine.gap_rows(), orders)

    def _planes_end(self) -> Records | None:
        """Return what became of planes, None where no interfaces are such."""
        if all(each.planes.use is not PlaneUse.SHARED for each in self.traffic.transports):
            return None
        return self.engine.plane_rows()

    def _migrations_end(self) -> Records | None:
        """Return where queue pairs of one plane at a time stand, None without any."""
        if not any(each.planes.use is PlaneUse.SINGLE for each in self.traffic.transports):
            return None
        return self.engine.migration_rows()

    def _counters(self) -> dict[str, dict[str, int]]:
        """Return what the mechanisms that the topology uses have counted in all switches."""
        used = counters(self.fabric.topology)
        found = {each.key: self.control.counts(each) for each in used}
        return {key: counts for key, counts in found.items() if counts}

    def _flow_paths(
        self, flow_stats: Records, switches: Mapping[str, SwitchEnd]
    ) -> dict[int, tuple[tuple[str, int], ...]]:
        """Return the paths of flows with packets on the way, if a queue is paused: who waits for
        whom.
        """
        if not any(row.paused for end in switches.values() for row in end.waiting):
            return {}
        if self.control.own:
            return {}  # entries of switches without a controller are not known
        on_the_way = flow_stats["sent_packets"] > flow_stats["received_packets"]
        flows = np.flatnonzero(on_the_way)[:MOST_PATHS].tolist()
        topology, control = self.fabric.topology, self.control
        paths = FlowPaths(topology, control.program, control.model.installed)
        try:
            return paths.of(self.traffic, flows)
        finally:
            paths.close()

    def _taken_by(self, name: str) -> tuple[int, int]:
        """Return packets dropped in a switch's ingress, and how many of them were for itself."""
        before, taken_before = self._taken.get(name, (0, 0))
        dropped = self.fabric.switches[name].device.core.stats().drop_ingress
        lost, taken = self.control.lost_and_taken(name)
        return dropped, taken_before + min(taken, max(0, dropped - before - lost))

    def _switch_end(self, name: str) -> SwitchEnd:
        core = self.fabric.switches[name].device.core
        ports = [port.number for port in self.fabric.topology.ports_of(name)]
        wires = {
            port: {d.name.lower(): asdict(core.port_impair_stats(port, d)) for d in Direction}
            for port in ports
        }
        stats = asdict(core.stats())
        if not stats["endless_passes"]:  # only programs with a loop around a table have any
            del stats["endless_passes"]
        return SwitchEnd(
            stats=stats,
            ports={port: asdict(core.port_stats(port)) for port in ports},
            wires={port: both for port, both in wires.items() if _any(list(both.values()))},
            **buffer_end(core, ports),
            taken=self._taken_by(name)[1],
        )


def _any(rows: Sequence[dict[str, int]]) -> bool:
    return any(value for row in rows for value in row.values())
