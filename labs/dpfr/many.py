"""Many cuts of one fabric, one at a time: how long the flows over each were cut off.

The fabric is set up once. Each cut is played in a forked copy of it, which begins with heartbeats
alone, at other phases each time: then probes over the link that will die, then the cut. What a flow
lost, and one packet more, times the time between its packets, is how long it was cut off at most.
"""

from __future__ import annotations

import gc
import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from random import Random

import numpy as np

from controller.program import CompiledProgram
from experiments.fabrics import Fabrics
from labs import Context, LabError, Measured
from mechanisms.dpfr.counters import DPFR as DPFR_COUNTER
from mechanisms.dpfr.settings import KEY, Dpfr
from simulator.core.binding import Stop
from simulator.flow_paths import FlowPaths
from simulator.prepared import PreparedFabric
from simulator.runner import Simulation
from softswitch.jobs import in_child
from topologies.event_model import Event
from topologies.event_schema import EventEntry
from topologies.events import PortCall, build_events, calls
from topologies.model import Role
from workloads.model import RunFile
from workloads.plan import plan
from workloads.schema import TrafficEntry

from .cuts import Cut, Cuts, Probe
from .faults import link_name

CUTS = "cuts.json"
PS_PER_US = 1_000_000
SETTLE_ROUNDS = 3
AFTER_ROUNDS = 9
"""So long beyond detection a cut is watched: a flow that is cut off then counts as so for good."""

DRAIN_PS = 20 * PS_PER_US
IDLE_ROUNDS = 64
WIRE_BYTES, LEAST_FRAME = 24, 60
"""Of each packet preamble, gap and checksum, which switches do not count, and padding."""


@dataclass(frozen=True)
class Seen:
    """What a cut cost: of the flows that cross it how long each was cut off at most, in us.

    None: to the end. `tier`: "leaf" or "core". In the whole fabric, `told`: notifications made,
    `found_dead`: ends of links found dead.
    """

    cut: str
    tier: str
    down: tuple[float | None, ...]
    up: tuple[float | None, ...]
    told: int
    found_dead: int

    @property
    def all(self) -> tuple[float | None, ...]:
        """Of all flows."""
        return (*self.down, *self.up)

    @property
    def longest_us(self) -> float | None:
        """Of the one that was cut off longest."""
        return None if None in self.all else max(us for us in self.all if us is not None)


class _Paths:
    """The paths of the last fabric: they follow from its links, whatever heartbeats' periods."""

    def __init__(self) -> None:
        self._kept: tuple[object, FlowPaths] | None = None

    def of(self, prepared: PreparedFabric, program: CompiledProgram) -> FlowPaths:
        """Return a fabric's, found before or to be found."""
        topology = prepared.set_up.topology
        key = (topology.links, topology.switches, program.sha256)
        if self._kept is None or self._kept[0] != key:
            if self._kept is not None:
                self._kept[1].close()
            installed = prepared.control.model.installed
            self._kept = (key, FlowPaths(topology, program, installed))
        return self._kept[1]


_fabrics = Fabrics()  # of this process, for one seed after the other
_paths = _Paths()


def measure(context: Context) -> dict[str, Measured]:
    """Cut as many links as lab.yaml says. Raises LabError where nothing crosses a cut."""
    run = context.run_file()
    own = context.settings["cuts"]
    count = own["full" if context.full else "usual"]
    cuts = Cuts(run.topology, context.seed)
    prepared = _fabrics.of(run, context.program)
    paths = _paths.of(prepared, context.program)
    like = plan(run).flow(0)
    idle = in_child(lambda: share_of_links(context, run, prepared))
    seen: list[Seen] = []
    for number, cut in enumerate(cuts.draw(count)):
        context.tell(number / count, str(cut))
        probes = tuple(cuts.probes(cut, paths, like))
        if not {probe.down for probe in probes} == {True, False}:
            raise LabError(f"{cut}: no flow was found that crosses it in both directions")
        seed = context.seed * 1000 + number
        played = Play(context, run, cut, probes, seed)
        seen.append(in_child(lambda played=played: played.seen(prepared)))  # type: ignore[misc]
    gc.collect()
    (context.out / CUTS).write_text(json.dumps([asdict(each) for each in seen]))
    longest = sorted(math.inf if each.longest_us is None else each.longest_us for each in seen)
    return {
        "blackout": Measured(None if longest[-1] == math.inf else longest[-1], "us"),
        "cuts": Measured(len(seen)),
        "flows": Measured(sum(len(each.all) for each in seen)),
        "cut off for good": Measured(sum(each.all.count(None) for each in seen)),
        "found dead in vain": Measured(sum(max(0, each.found_dead - 2) for each in seen)),
        "heartbeats, share of a link": Measured(round(100 * idle, 6), "%"),
    }


def share_of_links(context: Context, run: RunFile, prepared: PreparedFabric) -> float:
    """Return what heartbeats take of an idle link between switches: the largest share."""
    period_ps = _setting(run).period_ps
    begin_ps = SETTLE_ROUNDS * period_ps
    bare = replace(run, traffic=(), until_ps=begin_ps + IDLE_ROUNDS * period_ps)
    made = Simulation(bare, context.program, seed=context.seed, prepared=prepared)
    before: dict[tuple[str, int], int] = {}
    made.at(begin_ps, lambda: before.update(_sent(made)))
    made.run()
    shares = [
        8 * (sent - before[end]) * 10**12
        / (IDLE_ROUNDS * period_ps * run.topology.link_at(*end).rate_bps)
        for end, sent in _sent(made).items()
    ]  # fmt: skip
    return max(shares)


def _sent(made: Simulation) -> dict[tuple[str, int], int]:
    """Return the bytes on the wire that have left by each port between switches."""
    topology, found = made.fabric.topology, {}
    for name, switch in made.fabric.switches.items():
        for port in topology.ports_of(name):
            if topology.is_switch(port.peer.node):
                stats = switch.device.core.port_stats(port.number)
                padding = max(0, LEAST_FRAME * stats.tx_packets - stats.tx_bytes)
                found[name, port.number] = stats.tx_bytes + padding + WIRE_BYTES * stats.tx_packets
    return found


def _go_on(made: Simulation, until_ps: int) -> None:
    """Let it run to a time: `Simulation.run` looks at all ports at the end, which takes longer."""
    while (stop := made.engine.run(until_ps)) is not Stop.UNTIL:
        if stop is not Stop.PUNT:
            raise LabError(f"the simulation ended at {made.engine.now} ps: {stop.name}")
        made.control.punted(made.engine.take_punts())


def _setting(run: RunFile) -> Dpfr:
    found = run.topology.setting(KEY)
    if found is None:
        raise LabError("cuts are measured with dpfr: only", "say in lab.yaml: topology.dpfr: true")
    assert isinstance(found, Dpfr)
    return found


class Play:
    """One cut, and what it costs."""

    def __init__(
        self, context: Context, run: RunFile, cut: Cut, probes: Sequence[Probe], seed: int
    ) -> None:
        self.context, self.run, self.cut, self.probes, self.seed = context, run, cut, probes, seed
        setting = _setting(run)
        self.interval_ps = int(plan(run).streams["interval_ps"][0])
        self.cut_ps = round((SETTLE_ROUNDS + 2 + cut.at) * setting.period_ps)
        self.start_ps = SETTLE_ROUNDS * setting.period_ps
        after_ps = setting.detection_ps + AFTER_ROUNDS * setting.period_ps + DRAIN_PS
        self.stop_ps = self.cut_ps + after_ps

    def seen(self, prepared: PreparedFabric) -> Seen:
        """Play it on a fabric, which nothing else may be played on afterwards."""
        made = Simulation(self._file(), self.context.program, seed=self.seed, prepared=prepared)
        _go_on(made, self.cut_ps)
        for call in calls(replace(self.run.topology, events=self._events())):
            assert isinstance(call, PortCall), "frames are lost at ports"
            made.fabric.change_port(call)
        _go_on(made, self.stop_ps + DRAIN_PS)
        stats = made.engine.flow_stats(0, len(self.probes))
        lost = stats["sent_packets"].astype(np.int64) - stats["received_packets"].astype(np.int64)
        counts = made.control.counts(DPFR_COUNTER)
        us = [self._us(int(n)) for n in lost]
        is_core = self.run.topology.switch(self.cut.upper.node).role is Role.CORE
        pairs = list(zip(self.probes, us, strict=True))
        return Seen(
            cut=str(self.cut),
            tier="core" if is_core else "leaf",
            down=tuple(each for probe, each in pairs if probe.down),
            up=tuple(each for probe, each in pairs if not probe.down),
            told=counts["notified"],
            found_dead=counts["went_down"],
        )

    def _us(self, lost: int) -> float | None:
        watched = (self.stop_ps - self.cut_ps) // self.interval_ps
        if lost >= watched - 1:
            return None
        return (lost + 1) * self.interval_ps / PS_PER_US if lost else 0.0

    def _file(self) -> RunFile:
        """Return the run file with the probes and the cut."""
        random = Random(self.seed)
        first = self.run.traffic[0].cbr
        assert first is not None
        entries = [
            TrafficEntry(
                cbr=first.model_copy(
                    update={
                        "source": [probe.flow.src.node],
                        "to": [probe.flow.dst.node],
                        "udp_port": probe.flow.udp_port,
                        "start": self.start_ps + random.randrange(self.interval_ps),
                        "stop": self.stop_ps,
                    }
                )
            )
            for probe in self.probes
        ]
        return replace(
            self.run,
            traffic=tuple(entries),
            until_ps=self.stop_ps + DRAIN_PS,
        )

    def _events(self) -> tuple[Event, ...]:
        said = {"at": f"{self.cut_ps}ps", "link": link_name(self.cut.link), "loss": "100%"}
        if self.cut.towards:
            said["towards"] = self.cut.towards
        topology = self.run.topology
        names = {switch.name for switch in topology.switches}
        wrong: list[str] = []
        found = build_events(
            [EventEntry.model_validate(said)],
            topology.links,
            names,
            lambda path, message: wrong.append(message),
        )
        if wrong:
            raise LabError(wrong[0])
        return found
