"""A run file in real time: switches, hosts' endpoints and eBPF on this machine, slowed down.

    run = load_run_file("near-end.yaml")
    settings = LiveSettings(time_scale=10_000, ports=(("s1", 5),), seed=3, jitter_ps=2_000_000)
    seen = live.play(run, program, settings)
    seen.port("s1", 5).peak_bytes, seen.first_cut_ps, seen.goodput_bps()

The fabric is brought up for the run and taken down after it, also after a failure and Ctrl-C. Two
cores carry some 20 000 packets a second this way: choose the time scale so that a link has some
20 to 40 Mb/s. Bytes in flight do not shrink with it. The topology's events happen, too.
"""

from __future__ import annotations

import os
import select
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from controller.jobs import JobsSubmitted
from controller.program import CompiledProgram
from emulation.interrupts import Interrupts, handled
from emulation.link_events import EventPlayer
from emulation.programs import HostPrograms
from emulation.session import Session, explain, require_root
from emulation.switch_node import Target
from experiments.live_events import check_played, event_player
from experiments.live_flows import LiveError, LiveFlow, Playing, joined, live_flows, with_jitter
from experiments.live_model import FlowSeries, LiveRun, LiveSettings, PortSeries, Series
from experiments.live_planes import of_endpoint
from experiments.live_sampling import PairWatcher, QueueSampler, RateSampler, Samples
from hostagent.rnic.endpoint_loop import PACE_SLACK_PS
from mechanisms.switch_programs import around
from observe.metrics_reader import FabricReader
from observe.samples import FabricSample
from topologies.model import Topology
from workloads.declared import declared_jobs
from workloads.model import RunFile
from workloads.plan import plan
from workloads.source_ports import chooser_of

NICE = -10
"""Of switches, endpoints and their readers: real time can't wait for other programs."""

ATTEMPTS = 3
"""A run that the machine did not keep up with is repeated, so many times in all."""

SLACK_NS = PACE_SLACK_PS // 1000
"""What endpoints make up for; a machine that stands still for longer has changed the run."""

Tell = Callable[[float, str], None]

LEAD_S = 0.1
"""From the first look at the queues to time 0."""

SOON_NS = 4_000_000
"""A look takes less than that: no message is handed over later because of one."""

TICK_S = 0.001
"""The least time between two looks: it leaves the processors to what is looked at."""


def play(
    run: RunFile,
    program: CompiledProgram,
    settings: LiveSettings,
    tell: Tell = lambda share, text: None,
) -> LiveRun:
    """Run a run file and return what was observed. Needs root, and the main thread (for Ctrl-C).

    A run in which the machine stood still is discarded and repeated; of `ATTEMPTS` such ones
    the steadiest counts (`LiveRun.stalled_ps`). That depends on the clock alone, not on what was
    measured. Raises LiveError for what can't be run, EmulationError, ControllerError;
    KeyboardInterrupt after Ctrl-C. Whatever it raises, what was made is removed first.
    """
    require_root("a lab in real time")
    seed = run.seed if settings.seed is None else settings.seed
    traffic = with_jitter(plan(run, seed), seed, settings.jitter_ps)
    flows = live_flows(run, traffic, compared=settings.compared)
    jobs = () if chooser_of(run.topology) is None else declared_jobs(run, traffic)
    _check(run, settings)
    topology = run.topology.with_time_scale(settings.time_scale)

    def once() -> LiveRun:
        with fabric_up(topology, program, tell) as (session, interrupts):
            if jobs:
                session.controller.schedule(JobsSubmitted(jobs))
            return _Play(session, interrupts, run, flows, settings, seed, tell).play()

    return steadiest(once)


def steadiest(once: Callable[[], LiveRun]) -> LiveRun:
    """Call it until a run is steady, `ATTEMPTS` times at most; return the one least stalled."""
    runs: list[LiveRun] = []
    while len(runs) < ATTEMPTS and not any(seen.is_steady for seen in runs):
        runs.append(once())
    best = min(runs, key=lambda seen: seen.stalled_ps)
    return replace(best, attempts=len(runs))


def _check(run: RunFile, settings: LiveSettings) -> None:
    """Raise LiveError for ports that there are not."""
    for switch, port in settings.ports:
        known = run.topology.ports_of(switch) if run.topology.is_switch(switch) else ()
        if all(port != each.number for each in known):
            raise LiveError(f"{run.name}: there is no switch port {switch}:{port} to be watched")


@contextmanager
def fabric_up(
    topology: Topology, program: CompiledProgram, tell: Tell
) -> Iterator[tuple[Session, Interrupts]]:
    """Run a forwarding fabric for the block, with its handling of Ctrl-C. Needs root."""
    session = Session(topology, Target.SOFTSWITCH)
    try:
        with _ahead_of_others(), handled() as interrupts:
            try:
                _bring_up(session, program, tell)
                interrupts.check()
                yield session, interrupts
            except Exception as error:
                shown = explain(session, error)
                if shown is error:
                    raise
                raise shown from error
            finally:
                interrupts.close()
                session.close()
    finally:
        session.close()  # once more: a signal may have come just before the clean-up


@contextmanager
def _ahead_of_others() -> Iterator[None]:
    """Run what the block starts at a higher priority than the machine's other programs.

    A sender that waits for a processor sends nothing meanwhile, which no congestion control asked
    for.
    """
    before = os.getpriority(os.PRIO_PROCESS, 0)
    with suppress(PermissionError):  # in a container without that right: the run reports stalls
        os.setpriority(os.PRIO_PROCESS, 0, NICE)
    try:
        yield
    finally:
        os.setpriority(os.PRIO_PROCESS, 0, before)


def _bring_up(session: Session, program: CompiledProgram, tell: Tell) -> None:
    session.claim()
    tell(0.0, "network")
    session.build_network()
    session.wait_for_switches()
    found = around(session.topology, session.target_facts(), program)
    session.bring_up(found.program, programs=found.others, own=found.own)
    session.run_host_commands()
    outcome = session.host_agent_outcome()
    if outcome is not None and outcome.problem:
        raise LiveError(
            f"hosts have no eBPF: {outcome.problem}", "weft doctor says what is missing"
        )


class _Play:
    """One run on a fabric that is up."""

    def __init__(
        self,
        session: Session,
        interrupts: Interrupts,
        run: RunFile,
        flows: Sequence[LiveFlow],
        settings: LiveSettings,
        seed: int,
        tell: Tell,
    ) -> None:
        assert run.until_ps is not None  # live_flows has refused those
        self.session = session
        self.interrupts = interrupts
        self.run = run
        self.flows = tuple(flows)
        self.settings = settings
        self.seed = seed
        self.tell = tell
        self.scale = settings.time_scale
        self.length_ns = run.until_ps * self.scale // 1000
        self.zero_ns = 0
        self.stopped_ns = 0
        self.stalled_ns = 0

    def play(self) -> LiveRun:
        names = dict.fromkeys(
            str(end.end) for flow in self.flows for end in (flow.source, flow.target)
        )
        live = {host.name: host for host in self.session.network.live_interfaces()}
        places = self.session.endpoints.places([live[name] for name in names])
        pins = self.session.endpoints.pins()
        if pins is None:
            raise LiveError("the run's eBPF maps are not there", "weft doctor says what is missing")
        with ExitStack() as stack:
            playing = stack.enter_context(joined(self.flows, places, self.scale))
            queues = QueueSampler(
                self._addresses(),
                self.settings.ports,
                self.flows[0].queue if self.flows else 0,
                self.settings.above_bytes,
            )
            stack.callback(queues.close)
            rates = RateSampler(pins, playing)
            stack.callback(rates.close)
            watcher = PairWatcher(place.socket for place in places.values())
            stack.callback(watcher.close)
            programs = HostPrograms(self.session, self.run.programs, self.run.directory)
            stack.callback(programs.close)
            programs.prepare()
            events = stack.enter_context(event_player(self.session))
            self._run(playing, queues, rates, watcher, programs, events)
            counted = programs.stop()
            check_played(self.run, events)
            return replace(self._seen(playing, queues, rates, watcher), programs=tuple(counted))

    def _addresses(self) -> dict[str, str]:
        switches = self.session.network.switches
        return {name: switch.settings.address for name, switch in switches.items()}

    def _run(
        self,
        playing: Sequence[Playing],
        queues: QueueSampler,
        rates: RateSampler,
        watcher: PairWatcher,
        programs: HostPrograms,
        events: EventPlayer,
    ) -> None:
        self.zero_ns = time.monotonic_ns() + int(LEAD_S * 1e9)
        end_ns = self.zero_ns + self.length_ns
        for each in playing:
            each.began_ns = self.zero_ns
            each.plan(0, self.scale)
        told_ns, before, begun = 0, time.monotonic_ns(), False
        while (now := time.monotonic_ns()) < end_ns:
            self.interrupts.check()
            self.stalled_ns += max(0, now - before - SLACK_NS)
            before = now
            if not begun and now >= self.zero_ns:
                events.start()
                programs.begin()
                begun = True
            if self._starts_soon(playing, now):
                continue
            self._take_answers(playing)
            queues.look()
            rates.look()
            watcher.listen()
            if now - told_ns > 200_000_000:
                told_ns = now
                self.session.check_switches()
                programs.check()
                share = max(0.0, 1 - (end_ns - now) / self.length_ns)
                self.tell(share, f"{self.run.name}, seed {self.seed}")
            time.sleep(TICK_S)
        if not begun:  # a very short run; they are to stop at once
            programs.begin()
        self.stopped_ns = time.monotonic_ns()
        for each in playing:
            each.stop()
        watcher.listen()

    def _starts_soon(self, playing: Sequence[Playing], now_ns: int) -> bool:
        """Start what is due; wait for what is nearly, rather than look and start it late."""
        soon = now_ns + SOON_NS
        due = [each.due_ns for each in playing if each.is_ready and each.due_ns < soon]
        if due:
            time.sleep(max(0, min(due) - time.monotonic_ns()) / 1e9)
        for each in playing:
            each.step(time.monotonic_ns())
        return bool(due)

    def _take_answers(self, playing: Sequence[Playing]) -> None:
        waiting = {each.here.fileno(): each for each in playing if each.waiting}
        ready, _, _ = select.select(list(waiting), [], [], 0)
        for number in ready:
            waiting[number].take(time.monotonic_ns(), self.scale)

    # --- what was seen --------------------------------------------------------------------------

    def _fabric_ps(self, real_ns: int) -> int:
        return (real_ns - self.zero_ns) * 1000 // self.scale

    def _series(self, samples: Samples, factor: int = 1) -> tuple[Series, Series]:
        return samples.times_ps(self.zero_ns, self.scale), samples.numbers(factor)

    def _seen(
        self,
        playing: Sequence[Playing],
        queues: QueueSampler,
        rates: RateSampler,
        watcher: PairWatcher,
    ) -> LiveRun:
        sample = self._counted()
        return LiveRun(
            self.run.name,
            self.session.target.value,
            self.scale,
            self.seed,
            self._fabric_ps(self.stopped_ns),
            tuple(self._port(queues, sample, *port) for port in self.settings.ports),
            tuple(self._flow(i, each, rates, watcher) for i, each in enumerate(playing)),
            _drops(sample, playing, watcher),
            self.stalled_ns * 1000 // self.scale,
            modes={each.flow.source.host: each.here.call("info")["mode"] for each in playing}
            | {each.flow.target.host: each.there.call("info")["mode"] for each in playing},
        )

    def _counted(self) -> FabricSample:
        """Return what the switches have counted."""
        addresses = self._addresses()
        with FabricReader(self.session.topology, addresses, side_channel=True) as reader:
            sample = reader.sample()
        for name, each in sample.items():
            if each.error:
                raise LiveError(f"{name} can't be read: {each.error}")
        return sample

    def _port(
        self, queues: QueueSampler, sample: FabricSample, switch: str, port: int
    ) -> PortSeries:
        counted = sample[switch].ports[port]
        peak, above_ns = queues.peak(switch, port)
        return PortSeries(
            switch,
            port,
            *self._series(queues.depths[switch, port]),
            peak,
            None if above_ns is None else self._fabric_ps(above_ns),
            counted.marked_packets,
            _some(counted.drops),
            counted.tx_bytes,
        )

    def _flow(
        self, index: int, each: Playing, rates: RateSampler, watcher: PairWatcher
    ) -> FlowSeries:
        source, target = str(each.flow.source.end), str(each.flow.target.end)
        rate_at, rate = self._series(rates.rates[index], self.scale)
        here, there = (each.here.path, each.qpn), (each.there.path, each.peer_qpn)
        acked, received = watcher.acked.get(here, Samples()), watcher.received.get(there, Samples())
        slot = rates.last(index)
        cut_ns = 0 if slot is None else slot.first_cut_at
        return FlowSeries(
            source,
            target,
            self._fabric_ps(each.started_ns),
            *self._series(acked),
            *self._series(received),
            rate_at,
            rate,
            None if each.done_ns < 0 else self._fabric_ps(each.done_ns),
            self._fabric_ps(cut_ns) if cut_ns else None,
            source_counts=_counts(watcher, here),
            target_counts=_counts(watcher, there),
            failure=each.failure,
            wrong_bytes=each.wrong_bytes,
            planes=of_endpoint(watcher.planes.get(here, ()), self._fabric_ps),
        )


def _drops(
    sample: FabricSample, playing: Sequence[Playing], watcher: PairWatcher
) -> dict[str, dict[str, int]]:
    """Return what was lost inside switches, and between hosts' endpoints and their interfaces."""
    found = {name: _some(each.drops) for name, each in sample.items()}
    hosts = {each.here.path: each.flow.source.host for each in playing}
    hosts |= {each.there.path: each.flow.target.host for each in playing}
    for path, counts in watcher.endpoints.items():
        of_host = Counter(found.get(hosts[path], {}))
        of_host.update({name: counts.get(name, 0) for name in ("rx_dropped", "tx_dropped")})
        found[hosts[path]] = _some(of_host)
    return {name: drops for name, drops in found.items() if drops}


def _some(drops: Mapping[str, int]) -> dict[str, int]:
    return {reason: count for reason, count in drops.items() if count}


def _counts(watcher: PairWatcher, pair: tuple[Path, int]) -> dict[str, int]:
    row = watcher.counts.get(pair, {})
    return {name: value for name, value in row.items() if type(value) is int and name != "qpn"}
