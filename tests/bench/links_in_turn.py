"""Reflex, plan and back in a large fat tree: a link of each kind fails in mid-job, and returns.

    .venv/bin/python tests/bench/links_in_turn.py [--k 16] [--seeds 1] [--only leaf-aggregation]

    0      500 us    600 us   700 us      900 us   1400 us   1600 us     2100 us      2800 us
    |--------|---------|--------|-----------|---------|---------|-----------|------------|
    early    fault     late     noticed,    known     returns   known       used again   end
             reflex             if silent                       hold-down 500 us

Virtual time, 100 Gb/s, `dpfr` and `iglb`; each host sends at 10 Gb/s to one in the next pod by two
flows, and again by two late ones, which begin when the reflex has to be done. A link that loses its
carrier is known to the controller 200 us later; one that dies silently (all frames are lost, in
both directions or one) is noticed as others do it, by time-outs, 200 us after the fault. The link
of each kind is drawn by the seed. Of each fault:

    crossed     flows that are planned over the link, early and late
    blackout    the longest time for which a flow got nothing: its losses and one more, in packets
    late lost   packets of late flows that were lost: on dead paths after the reflex
    others      packets of flows that do not cross it that were lost or overtaken
    away, back  when the plan in force has no flow on the link any more, in us after the fault, and
                all of them again, after the return
    moved       flows that were moved, by all repairs

The bench ends with an error where flows oscillate: where there are not two repairs that move each
crossed flow once, or the pins at the end are not those of the beginning.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

import command_line
import numpy as np

from compiler import compile_p4
from controller.program import CompiledProgram
from experiments.fabrics import Fabrics
from mechanisms import registry
from mechanisms.iglb.learner import PlannedPaths
from mechanisms.iglb.pins import Pins
from mechanisms.program import FABRIC
from simulator.prepared import PreparedFabric
from simulator.runner import Simulation
from softswitch.jobs import in_child
from topologies.model import Link, Role, Topology
from workloads.loader import read_run
from workloads.model import RunFile

RUN = """
topology:
  generator: fat_tree
  k: {k}
  time_scale: 1
  link: {{rate: 100Gbps, delay: 500ns, queue: 8MB, mtu: 4200B}}
  classes: {{roce: {{dscp: 26, queue: 3}}, rest: {{queue: 0}}}}
  dpfr: true
  iglb: {{hold_down: 500us}}
controller: {{delay: 200us}}
sample: 1ms
until: 3ms
seed: {seed}
events: [{events}]
traffic:
{traffic}
"""
US = 1_000_000
FAULT_US, LATE_US, NOTICED_US, RETURN_US, END_US = 500, 600, 700, 1400, 2800
LOOK_US = 5
"""How often the plan in force is looked at."""
PACKET, RATE_GBPS, PAIRS = 4096, 10, 2
PACKET_US = (PACKET + 82) * 8e-3 / RATE_GBPS

HOST = "host-leaf"
KINDS = {
    HOST: None,
    "leaf-aggregation": Role.LEAF,
    "aggregation-core": Role.CORE,
}
CARRIER, SILENT = "carrier lost", "silent"
FAULTS = (CARRIER, SILENT, f"{SILENT}, up", f"{SILENT}, down")


@dataclass(frozen=True)
class Fault:
    """What happens to a link. `upper`: its end that is further from the hosts."""

    kind: str
    what: str
    link: Link
    upper: str

    @property
    def name(self) -> str:
        """Return the link as events name it."""
        return "-".join(f"{end.node}:{end.port}" for end in (self.link.a, self.link.b))

    def events(self) -> Iterator[str]:
        """Yield the events of a run."""
        down = FAULT_US if self.what == CARRIER else NOTICED_US
        if self.what != CARRIER:
            ends = {self.link.a.node, self.link.b.node}
            towards = {"up": self.upper, "down": (ends - {self.upper}).pop()}
            way = self.what.removeprefix(SILENT).lstrip(", ")
            lasts = RETURN_US - FAULT_US
            yield f"{{at: {FAULT_US}us, link: {self.name}, loss: 100%, lasts: {lasts}us" + (
                f", towards: {towards[way]}}}" if way else "}"
            )
        yield f"{{at: {down}us, link: {self.name}, do: down}}"
        yield f"{{at: {RETURN_US}us, link: {self.name}, do: up}}"


@dataclass(frozen=True)
class Seen:
    """What a fault did."""

    crossed: tuple[int, int]
    blackout_us: float
    late_lost: int
    others: int
    away_us: float | None
    back_us: float | None
    moved: int


def run_file(k: int, seed: int, fault: Fault | None) -> RunFile:
    """Return the run of a fault, or of none."""
    traffic = "\n".join(
        f"  - permutation: {{shift: {k * k // 4 + 1}, start: {start}us, udp_port: {port + pair}, "
        f"bytes: {_bytes(start)}B, payload: {PACKET}B, dscp: 26, rate: {RATE_GBPS}Gbps}}"
        for start, port in ((0, 50_000), (LATE_US, 51_000))
        for pair in range(PAIRS)
    )
    events = ", ".join(fault.events()) if fault else ""
    return read_run(RUN.format(k=k, seed=seed, events=events, traffic=traffic))


def _bytes(start_us: int) -> int:
    return int((END_US - start_us) / PACKET_US) * PACKET


def faults(topology: Topology, seed: int) -> Iterator[Fault]:
    """Yield a fault of each sort, on a link of each kind that the seed draws."""
    random = Random(seed)
    for kind, role in KINDS.items():
        links = [each for each in topology.links if _kind(topology, each) == role]
        link = random.choice(links)
        switches = [end.node for end in (link.a, link.b) if topology.is_switch(end.node)]
        upper = max(switches, key=lambda name: _HEIGHT[topology.switch(name).role])
        for what in FAULTS if kind != HOST else (CARRIER,):
            yield Fault(kind, what, link, upper)


_HEIGHT = {Role.LEAF: 0, Role.SPINE: 1, Role.CORE: 2}


def _kind(topology: Topology, link: Link) -> Role | None:
    """Return which end tells a link's kind: the core, else the leaf; None for a host's link."""
    ends = [end.node for end in (link.a, link.b)]
    if not all(map(topology.is_switch, ends)):
        return None
    roles = {topology.switch(end).role for end in ends}
    return Role.CORE if Role.CORE in roles else Role.LEAF


class Watch:
    """When the plan in force leaves a link, and when its pins are again what they were."""

    def __init__(self, simulation: Simulation, link: int) -> None:
        learner = simulation.control.loop.learners["iglb"]
        assert isinstance(learner, PlannedPaths)
        self.learner, self.link = learner, link
        self.home: Pins = learner.in_force.pins
        self.away_us: float | None = None
        self.back_us: float | None = None
        self.crossing = self._crossing()
        for at in range(FAULT_US, END_US, LOOK_US):
            simulation.at(at * US, lambda at=at: self._look(at))  # type: ignore[misc]

    def _crossing(self) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
        plan = self.learner.in_force.plan
        assert plan is not None
        crossing: np.ndarray[tuple[int, ...], np.dtype[np.bool_]] = (
            (plan.arcs // 2 == self.link) & (plan.arcs >= 0)
        ).any(axis=1)
        return crossing

    def _look(self, at_us: int) -> None:
        if at_us < RETURN_US:
            if self.away_us is None and not self._crossing().any():
                self.away_us = at_us - FAULT_US
        elif self.back_us is None and self.learner.in_force.pins == self.home:
            self.back_us = at_us - RETURN_US


def play(run: RunFile, program: CompiledProgram, prepared: PreparedFabric, fault: Fault) -> Seen:
    """Let it happen. Raises SystemExit where flows oscillate."""
    simulation = Simulation(run, program, prepared=prepared)
    watch = Watch(simulation, run.topology.links.index(fault.link))
    traffic = simulation.traffic.flows
    hosts = [end.node for end in (fault.link.a, fault.link.b)]
    own = np.array([name in hosts for name in _ends(simulation)]).reshape(-1, 2).any(axis=1)
    crossing = watch.crossing | own
    flows = simulation.run().end.flow_stats
    lost = flows["sent_packets"].astype(np.int64) - flows["received_packets"].astype(np.int64)
    late = np.arange(len(traffic)) >= len(traffic) // 2
    counts, moved = watch.learner.counts, int(watch.crossing.sum())
    repairs = 2 if moved else 0
    where = f"{fault.kind} {fault.name}, {fault.what}"
    if (counts.repairs, counts.moved) != (repairs, repairs * moved):
        raise SystemExit(
            f"error: {where}: {counts.repairs} repairs moved {counts.moved} flows, "
            f"not {repairs} each of {moved}"
        )
    if watch.learner.in_force.pins != watch.home:
        raise SystemExit(f"error: {where}: flows are not back where they were")
    early_lost = int(lost[crossing & ~late].max(initial=0))
    return Seen(
        (int((crossing & ~late).sum()), int((crossing & late).sum())),
        (early_lost + 1) * PACKET_US if early_lost else 0.0,
        int(lost[late].sum()),
        int(lost[~crossing].sum() + flows["out_of_order"][~crossing].sum()),
        watch.away_us if moved else None,
        watch.back_us if moved else None,
        counts.moved,
    )


def _ends(simulation: Simulation) -> list[str]:
    """Return source and target of each flow, one behind the other."""
    ends = [each.end.node for each in simulation.fabric.topology.interfaces()]
    flows = simulation.traffic.flows
    return [ends[int(flow[side])] for flow in flows for side in ("src", "dst")]


def show(fault: Fault, seen: Seen) -> None:
    """Print a row."""
    times = " ".join(
        f"{'-' if us is None else f'{us:.0f}':>6}" for us in (seen.away_us, seen.back_us)
    )
    crossed = "+".join(map(str, seen.crossed))
    print(
        f"{fault.kind:18}{fault.what:16}{fault.name:22}{crossed:>8} {seen.blackout_us:8.1f} us "
        f"{seen.late_lost:9} {seen.others:6} {times} {seen.moved:5}",
        flush=True,
    )


def main() -> None:
    """Print a row for each fault."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--k", type=command_line.count, default=16, help="of the fat tree: even, >= 4"
    )
    parser.add_argument("--seeds", type=command_line.count, nargs="+", default=[1])
    parser.add_argument("--only", choices=KINDS, help="a kind of link (default: all)")
    given = parser.parse_args()
    if given.k % 2 or given.k < 4:
        parser.error("argument --k: k must be even, and 4 or more")
    whole = run_file(given.k, given.seeds[0], None)
    defines = registry.defines(whole.topology)
    program = CompiledProgram.of(compile_p4(FABRIC, defines=defines))
    prepared = Fabrics().of(whole, program)
    print(f"{given.k**3 // 4} hosts\n"
          "link              fault           name                   crossed    blackout "
          "late lost others   away   back moved")  # fmt: skip
    for seed in given.seeds:
        for fault in faults(whole.topology, seed):
            if given.only in (None, fault.kind):
                run = run_file(given.k, seed, fault)
                seen = in_child(lambda: play(run, program, prepared, fault))  # noqa: B023
                show(fault, seen)


if __name__ == "__main__":
    sys.exit(command_line.run(main))
