"""A case in virtual time, and what the instruments show of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from controller.diff import Change, Operation
from controller.entries import ActionCall, Exact, TableEntry, match
from controller.program import CompiledProgram
from experiments.fabrics import Fabrics
from labs import LabError
from mechanisms.contract import PortCounter
from mechanisms.registry import counters
from observe.flow_trace import FlowTrace, TracedFlow, assemble, is_settled
from simulator.flow_probe import FlowProbes
from simulator.runner import Simulation
from softswitch.core import SwitchCore
from softswitch.jobs import in_child
from softswitch.p4runtime.status import Code
from topologies.model import Endpoint, Topology

from .answers import MIS_SET_CLASS
from .faults import ROCE_DSCP, Case, between_switches
from .observations import FlowEnds, Observations, Port

PS_PER_US = 1_000_000
QUEUES = range(8)
HEARTBEATS, MARKED, CLASSES = "dpfr", "port_marked", "dscp_class"
"""A mechanism's counter by its key, a counter and a table of p4src/fabric.p4."""

Result = TypeVar("Result")
Where = tuple[str, int]
_fabrics = Fabrics()  # of this process, for one case after the other


@dataclass
class _Rows:
    """The counts of one port as they grow."""

    received: list[int] = field(default_factory=list)
    sent: list[int] = field(default_factory=list)
    dropped: list[int] = field(default_factory=list)
    marked: list[int] = field(default_factory=list)
    pauses: list[int] = field(default_factory=list)
    heartbeats: dict[str, list[int]] = field(default_factory=dict)


def played(
    case: Case, program: CompiledProgram, sample_us: int, look: Callable[[Played], Result]
) -> Result:
    """Play a case in a forked process, and return what `look` makes of it there."""
    _fabrics.of(case.run, program)
    return in_child(lambda: look(Played(case, program, sample_us)))


class Played:
    """A case's fabric, which has run to its end and still stands.

    `first_us`: by outcome of the heartbeats' counter, when the port that hears the faulty direction
    first counted it; looked at once a period.
    """

    def __init__(self, case: Case, program: CompiledProgram, sample_us: int) -> None:
        """Set up the case. Raises LabError for a topology without what is to be observed."""
        assert case.run.until_ps is not None, "lab.yaml says how long it takes"
        self.case = case
        self.simulation = Simulation(
            case.run, program, seed=case.seed, prepared=_fabrics.of(case.run, program)
        )
        self.topology: Topology = self.simulation.fabric.topology
        known = {each.key: each for each in counters(self.topology)}
        if HEARTBEATS not in known:
            raise LabError("there are no heartbeats", "say in lab.yaml: topology.dpfr: true")
        self._heartbeats: PortCounter = known[HEARTBEATS]
        self._rows = {
            (switch.name, port.number): _Rows()
            for switch in self.topology.switches
            for port in self.topology.ports_of(switch.name)
        }
        self._times_us: list[int] = []
        self._probes: FlowProbes | None = None  # made where a path is asked for
        self.first_us: dict[str, float] = {}
        for switch, port in self._rows:
            for queue in QUEUES:
                self._core(switch).watch_queue(port, queue, 0)
        if case.truth.kind == MIS_SET_CLASS:
            self._set_wrong(case.truth.place)
        self._sample_all(sample_us * PS_PER_US, case.run.until_ps)
        self.simulation.advance(case.run.until_ps)

    # --- the fault that is no event -------------------------------------------------------------

    def _set_wrong(self, switch: str) -> None:
        """Let one switch put RoCE's packets into another queue than the others do."""
        control, virtual = self.simulation.control, self.simulation.fabric.switches[switch]
        info = control.model.info(switch)
        wrong = TableEntry(
            CLASSES,
            match(dscp=Exact(ROCE_DSCP)),
            ActionCall("set_class", (("class_of_service", self.case.wrong_queue),)),
        )
        (status,) = virtual.device.write([Change(Operation.MODIFY, wrong).encode(info)])
        if status.code is not Code.OK:
            raise LabError(f"{switch}: {CLASSES} can't be changed: {status.message}")
        self.simulation.engine.touch(virtual.node)

    # --- samples --------------------------------------------------------------------------------

    def _core(self, switch: str) -> SwitchCore:
        return self.simulation.fabric.switches[switch].device.core

    def _sample_all(self, every_ps: int, until_ps: int) -> None:
        for at_ps in range(0, until_ps, every_ps):
            self.simulation.at(at_ps, self._sample)
        self.simulation.at(until_ps, self._sample)
        place = self.case.truth.place
        if ":" not in place:
            return
        switch, _, port = place.partition(":")
        far = self.topology.peer(switch, int(port))
        begins_ps = self.case.begins_us * PS_PER_US
        before: dict[str, int] = {}
        self.simulation.at(begins_ps, lambda: before.update(self._beats((far.node, far.port))))
        period_ps = self.topology.setting(HEARTBEATS).period_ps
        for at_ps in range(begins_ps + period_ps, until_ps, period_ps):
            self.simulation.at(at_ps, lambda: self._notice((far.node, far.port), before))

    def _notice(self, where: Where, before: dict[str, int]) -> None:
        for outcome, count in self._beats(where).items():
            if count > before[outcome] and outcome not in self.first_us:
                now_us = self.simulation.engine.now / PS_PER_US
                self.first_us[outcome] = now_us - self.case.begins_us

    def _sample(self) -> None:
        self._times_us.append(self.simulation.engine.now // PS_PER_US)
        for where, rows in self._rows.items():
            core = self._core(where[0])
            counts, pfc = core.port_stats(where[1]), core.pfc_stats(where[1])
            rows.received.append(counts.rx_packets)
            rows.sent.append(counts.tx_packets)
            rows.dropped.append(counts.drop_queue + sum(pfc.drop_shared) + sum(pfc.drop_headroom))
            rows.marked.append(self._cells(where[0], MARKED, [where[1]])[0])
            rows.pauses.append(sum(pfc.xoff_sent))
            for outcome, count in self._beats(where).items():
                rows.heartbeats.setdefault(outcome, []).append(count)

    def _beats(self, where: Where) -> dict[str, int]:
        cells = self._heartbeats.cells(where[1])
        counts = self._cells(where[0], self._heartbeats.name, list(cells))
        return dict(zip(cells.values(), counts, strict=True))

    def _cells(self, switch: str, counter: str, cells: list[int]) -> list[int]:
        pipeline = self.simulation.fabric.switches[switch].device.pipeline
        known = self.simulation.control.model.info(switch).counters
        assert pipeline is not None
        if counter not in known:
            raise LabError(f"the program has no counter {counter!r}", "use p4src/fabric.p4")
        array = pipeline.schema.counters[known[counter].id].index
        return [self._core(switch).counter_get(array, cell).packets for cell in cells]

    # --- what is shown --------------------------------------------------------------------------

    def observations(self) -> Observations:
        """Return all that whoever looks for the fault may see."""
        topology = self.topology
        return Observations(
            times_us=tuple(self._times_us),
            links=tuple((_port(a), _port(b)) for a, b in between_switches(topology)),
            hosts={
                f"{each.switch}:{each.port}": str(each.end) for each in topology.interfaces()
            },
            ports={
                _name(where): Port(
                    tuple(rows.received), tuple(rows.sent), tuple(rows.dropped),
                    tuple(rows.marked), tuple(rows.pauses),
                )
                for where, rows in self._rows.items()
            },
            heartbeats={
                _name(where): {name: tuple(counts) for name, counts in rows.heartbeats.items()}
                for where, rows in self._rows.items()
            },
            queues={
                _name(where): self._most_waiting(where) for where in self._rows
            },
            flows=tuple(self._flows()),
            _ask=self.path,
        )  # fmt: skip

    def _most_waiting(self, where: Where) -> dict[int, int]:
        core = self._core(where[0])
        return {queue: core.queue_peak(where[1], queue).bytes for queue in QUEUES}

    def _flows(self) -> list[FlowEnds]:
        traffic = self.simulation.traffic
        stats = self.simulation.engine.flow_stats(0, len(traffic.flows))
        found = []
        for number, row in enumerate(stats):
            flow = traffic.flow(number)
            counts = int(row["sent_packets"]), int(row["received_packets"])
            found.append(FlowEnds(str(flow.src), str(flow.dst), flow.udp_port, flow.dscp, *counts))
        return found

    def path(self, source: str, target: str, udp_port: int, dscp: int, count: int) -> FlowTrace:
        """Trace a flow in a copy of the fabric, which itself stays as it is."""
        topology = self.topology
        ends = {str(each.end): each.end for each in topology.interfaces()}
        for name in (source, target):
            if name not in ends:
                raise LookupError(f"there is no host {name!r}: they are {', '.join(ends)}")
        flow = TracedFlow(ends[source], ends[target], udp_port, dscp)
        if self._probes is None:
            self._probes = FlowProbes(self.simulation)
        probes = self._probes
        traces = in_child(
            lambda: probes.send(
                flow.source, flow.frame(topology), count, flow.filter(topology),
                lambda found: is_settled(topology, flow, count, found),
            )
        )  # fmt: skip
        return assemble(topology, flow, count, traces)


def _port(end: Endpoint) -> str:
    return f"{end.node}:{end.port}"


def _name(where: Where) -> str:
    return f"{where[0]}:{where[1]}"
