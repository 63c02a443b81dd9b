"""`weft perf --sim`: the measurements in the simulator, in virtual time.

Each measurement is a run of its own from an empty fabric, so that the same call gives the same
numbers. A message leaves the send queue when its acknowledgement is back: that is taken as the way
back of an empty fabric (delays, and the acknowledgement's time on each link).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from experiments.perf_planes import PlaneShare, shares
from experiments.perf_report import Measurement, Report, Row, bandwidth, latency
from experiments.perf_request import DEFAULT_COUNT, DEFAULT_DEPTH, MAX_MESSAGES, Request, interfaces
from mechanisms.contract import Measured
from mechanisms.registry import mechanisms
from observe.errors import UsageError
from simulator.runner import Progress, Simulation
from topologies.document import Document
from topologies.model import Interface, Topology
from workloads.dag import FlowKind, FlowTable, MessageTable
from workloads.model import STREAM, RunFile, Traffic
from workloads.paths import Paths, mtu_payload, wire_ps
from workloads.schema import ROCE_DSCP
from workloads.senders import columns
from workloads.several import links_of
from workloads.transport_schema import TransportFields, transport_entry

if TYPE_CHECKING:
    from controller.program import CompiledProgram

Numbers = np.ndarray[Any, np.dtype[np.int64]]

_PS = 10**12
_ACK_WIRE = 8 + 14 + 20 + 8 + 12 + 4 + 4 + 4 + 12
"""Byte times of an acknowledgement: preamble to AETH, ICRC, FCS and gap."""

_COUNTED = ("repeated_packets", "repeated_bytes", "timeouts", "naks", "cnps")
WHY = {
    2: "{target} does not answer (retries exceeded)",
    3: "{target} posts no receive buffers",
}
"""By enum rnic_failure; others are said by number."""


@dataclass(frozen=True)
class _Offered:
    """The messages of one source: those that are timed, and for ping-pong their answers."""

    flows: Numbers
    messages: Numbers
    answers: Numbers | None = None


Tell = Callable[[Progress], None]


def simulate(
    request: Request, topology: Topology, program: CompiledProgram, tell: Tell | None = None
) -> Report:
    """Do all measurements of a request. Ctrl-C ends it with the results so far.

    Raises UsageError where the request does not fit the topology, TopologyError, PipelineError.
    """
    virtual = topology.with_time_scale(1)
    sources, target = interfaces(request, virtual)
    if request.mtu is None:
        smallest = min(_payload(virtual, each) for each in (*sources, target))
    else:
        smallest = request.mtu
    parameters = {
        **request.parameters(),
        "mtu": smallest,
        "depth": request.depth or DEFAULT_DEPTH,
    }
    measured: list[Measurement] = []
    for mode, size in request.measurements():
        one = _Measured(request, virtual, program, mode, size)
        measured.append(one.run(tell))
        if measured[-1].interrupted:
            break
    return Report(
        virtual.name,
        "simulator",
        "virtual",
        1,
        parameters,
        tuple(measured),
        notes=tuple(notes(request, virtual)),
        interrupted=measured[-1].interrupted,
    )


def notes(request: Request, topology: Topology) -> list[str]:
    """Say what of the topology makes the numbers mean less than they seem to."""
    if request.control == "none":
        return []
    of_data = next((c for c in topology.classes if ROCE_DSCP in c.dscps), None)
    senders = [request.target] if request.operation == "read" else request.sources
    named = {name.partition(":")[0] for name in senders}
    asked = Measured(topology, of_data, request.control, bool(named - topology.stock_nics))
    return [caution for each in mechanisms() for caution in each.cautions(asked)]


def _payload(topology: Topology, interface: Interface) -> int:
    return mtu_payload(topology.link_at(interface.host, interface.number).mtu_bytes)


class _Measured:
    """One measurement: its plan, its run, its rows."""

    def __init__(
        self,
        request: Request,
        topology: Topology,
        program: CompiledProgram,
        mode: str,
        size: int,
    ) -> None:
        self.request, self.topology, self.program = request, topology, program
        self.mode, self.size = mode, size
        self.depth = request.depth or DEFAULT_DEPTH
        self.sources, self.target = interfaces(request, topology)
        self.flows = FlowTable(topology, _transport(request))
        self.messages = MessageTable()
        self._check_mtu()

    def _check_mtu(self) -> None:
        if self.request.mtu is None:
            return
        for interface in (*self.sources, self.target):
            most = _payload(self.topology, interface)
            if self.request.mtu > most:
                raise UsageError(
                    f"--mtu {self.request.mtu} does not fit the link of {interface.end}: at most "
                    f"{most}"
                )

    def run(self, tell: Tell | None) -> Measurement:
        """Run the simulation."""
        offered = [self._offer(source) for source in self.sources]
        simulation = Simulation(
            RunFile(
                name="perf",
                file="perf",
                topology=self.topology,
                document=Document("perf", {}, {}),
                until_ps=self.request.duration_ps,
                sample_ps=0,
            ),
            self.program,
            traffic=self._traffic(),
        )
        outcome = simulation.run(progress=tell)
        times = outcome.end.message_times
        stats = simulation.engine.transport_stats(0, len(self.flows))
        rows = [
            self._row(source, each, times, stats, self._planes(simulation, source, each))
            for source, each in zip(self.sources, offered, strict=True)
        ]
        return Measurement(self.mode, self.size, tuple(rows), outcome.stop.value == "interrupted")

    # --- the plan -------------------------------------------------------------------------------

    def _offer(self, source: Interface) -> _Offered:
        if self.mode == "latency":
            return self._ping_pong(source)
        flows = self._new_flows(source, self.target, self.request.qps)
        count, depth = self._count(source), self.depth
        # By number of the message, then by queue pair: all queue pairs go side by side.
        numbers = self.messages.add(
            np.tile(flows, count), self.size, count * len(flows), gap_ps=self._ack_ps(source)
        )
        window = depth * len(flows)
        self.messages.wait(numbers[window:], numbers[:-window] if window else numbers)
        return _Offered(flows, numbers)

    def _ping_pong(self, source: Interface) -> _Offered:
        count = self.request.count or DEFAULT_COUNT
        if self.request.duration_ps is not None:
            count = min(MAX_MESSAGES, self.request.duration_ps // 1_000_000 + 1)
        flow = self._new_flows(source, self.target, 1)
        if self.request.operation == "read":
            numbers = self.messages.add(flow, self.size, count)
            self.messages.wait(numbers[1:], numbers[:-1])
            return _Offered(flow, numbers)
        back = self._new_flows(self.target, source, 1)
        both = np.concatenate([flow, back])
        numbers = self.messages.add(np.tile(both, count), self.size, 2 * count)
        self.messages.wait(numbers[1:], numbers[:-1])
        return _Offered(both, numbers[::2], numbers[1::2])

    def _count(self, source: Interface) -> int:
        duration = self.request.duration_ps
        if duration is None:
            return self.request.count or DEFAULT_COUNT
        links = links_of(self.topology, [source], whole=self.request.interfaces == "all")
        rate = sum(link.rate_bps for link in links)
        fit = rate * duration // (8 * self.size * _PS) // self.request.qps + self.depth + 1
        most = MAX_MESSAGES // (self.request.qps * len(self.sources))
        if fit > most:
            raise UsageError(
                f"--duration {duration / _PS:g} s are more than {MAX_MESSAGES} messages of "
                f"{self.size} bytes: less time or larger messages"
            )
        return int(fit)

    def _new_flows(self, source: Interface, target: Interface, count: int) -> Numbers:
        """Return `count` queue pairs. The table wants to know where data flows: READ's back."""
        if self.request.operation == "read":
            source, target = target, source
        kind = FlowKind("perf", operation=self.request.operation)
        ends = self.flows.places([source, target])
        return self.flows.each(kind, np.repeat(ends[:1], count), np.repeat(ends[1:], count))

    def _ack_ps(self, source: Interface) -> int:
        if self.request.operation == "read":
            return 0  # a READ is complete when its data is there
        numbers = self.flows.places([self.target, source])
        table = Paths(self.topology).between(self.flows.interfaces, numbers[:1], numbers[1:])
        rates = np.array(table.links[int(table.kind[0])], dtype=np.int64)
        on_links = wire_ps(np.full(len(rates), _ACK_WIRE, dtype=np.int64), rates)
        return int(table.delay_ps[0]) + int(on_links.sum())

    def _traffic(self) -> Traffic:
        arrays = self.messages.arrays()
        return Traffic(
            topology=self.topology,
            flows=self.flows.records(),
            streams=np.array([], dtype=STREAM),
            messages=arrays,
            ideal_ps=np.zeros(len(arrays), dtype=np.int64),
            transports=self.flows.transports(),
        )

    # --- the results ----------------------------------------------------------------------------

    def _planes(
        self, simulation: Simulation, source: Interface, offered: _Offered
    ) -> tuple[PlaneShare, ...]:
        """Return what each plane carried of a source's messages; the answers are not among them."""
        flows = offered.flows[:1] if self.mode == "latency" else offered.flows
        rows = simulation.engine.plane_rows()
        rows = rows[(rows["sends"] != 0) & np.isin(rows["flow"], flows)]
        sender = self.target if self.request.operation == "read" else source
        return shares(self.topology, sender, ((int(row["interface"]), row) for row in rows))

    def _row(
        self,
        source: Interface,
        offered: _Offered,
        times: Any,
        stats: Any,
        planes: tuple[PlaneShare, ...],
    ) -> Row:
        names = (str(source.end), str(self.target.end))
        of_flows = stats[offered.flows]
        fields = dict(zip(_COUNTED, _COUNTED, strict=True))
        fields |= {each.name: each.counter for each in columns()}
        counts = {name: int(of_flows[field].sum()) for name, field in fields.items()}
        failures = {
            f"{names[0]} -> {names[1]}: "
            + WHY.get(int(why), f"failed ({why})").format(target=names[1])
            for why in of_flows["failure"]
            if why
        }
        own = times[offered.messages]
        if self.mode == "latency":
            ends = own["done"] if offered.answers is None else times[offered.answers]["done"]
            spans = (ends - own["ready"])[ends >= 0]
            single = spans if offered.answers is None else spans // 2
            return Row(*names, latency(single), tuple(sorted(failures)), counts, planes)
        done = own["done"] >= 0
        arrived = own["done"][done] + self._ack_ps(source)
        found = bandwidth(own["ready"][own["ready"] >= 0], arrived, self.size)
        return Row(*names, found, tuple(sorted(failures)), counts, planes)


def _transport(request: Request) -> TransportFields:
    return transport_entry().model_validate(
        {
            **request.transport(),
            "retransmission": request.retransmission,
            "operation": request.operation,
            "mtu": request.mtu,
        }
    )
