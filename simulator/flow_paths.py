"""Which ports a flow leaves switches through, found by asking the program itself.

A packet of the flow goes through copies of the switches, made as far as paths lead there, that have
the entries which the controller gave the real ones. A program that spreads one flow's packets over
ports, or remembers earlier ones, may have sent others elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from controller.diff import changes
from controller.entries import Entry
from controller.program import CompiledProgram
from protocols.probe_frame import probe_frame
from simulator.fabric import PRIORITIES, cell_bytes, tick_ps
from softswitch import Switch
from softswitch.core import CoreConfig
from softswitch.p4runtime import pipeline
from topologies.model import Endpoint, Topology
from workloads.model import Flow, Traffic

MOST_HOPS = 32
_NS = 10**6  # between two looks: longer than any packet takes through a switch


class FlowPaths:
    """Finds paths on a topology whose switches hold `entries`."""

    def __init__(
        self,
        topology: Topology,
        program: CompiledProgram,
        entries: Mapping[str, Sequence[Entry]],
    ) -> None:
        """`entries`: by switch."""
        self._topology = topology
        self._program = program
        self._entries = entries
        self._config = CoreConfig(
            cpu_port=topology.own.cpu_port,
            priorities=PRIORITIES,
            tick_ps=tick_ps(topology),
            depth_cell_bytes=cell_bytes(topology),
        )
        self._prepared = pipeline.prepare(program.p4info.message, program.device_config)
        self._switches: dict[str, Switch] = {}

    def of(self, traffic: Traffic, flows: Iterable[int]) -> dict[int, tuple[tuple[str, int], ...]]:
        """Return the paths of flows by their numbers; () for a flow that is lost on the way."""
        return {number: self.path(traffic.flow(number)) for number in flows}

    def path(self, flow: Flow) -> tuple[tuple[str, int], ...]:
        """Return the ports that a flow leaves switches through on its way, in order.

        One of several interfaces: those of each of its ways, one behind the other.
        """
        ways = (
            (Endpoint(flow.src.node, i), Endpoint(flow.dst.node, i)) for i in range(flow.interfaces)
        )
        if flow.interfaces == 1:
            return self._way(flow, flow.src, flow.dst)
        return tuple(port for src, dst in ways for port in self._way(flow, src, dst))

    def _way(self, flow: Flow, src: Endpoint, dst: Endpoint) -> tuple[tuple[str, int], ...]:
        topology = self._topology
        source, target = topology.interface(src), topology.interface(dst)
        macs = topology.switch(source.switch).mac, source.mac
        frame = probe_frame(macs, (source.address.ip, target.address.ip), flow.udp_port, flow.dscp)
        here, found = Endpoint(source.switch, source.port), []
        for _ in range(MOST_HOPS):
            sent = self._through(here, frame)
            if sent is None:
                return ()
            port, frame = sent
            found.append((here.node, port))
            here = topology.peer(here.node, port)
            if not topology.is_switch(here.node):
                return tuple(found)
        return ()  # it goes round

    def _through(self, where: Endpoint, frame: bytes) -> tuple[int, bytes] | None:
        """Return the port and frame that leave a switch for one that comes in."""
        switch = self._copy(where.node)
        switch.inject(where.port, frame)
        used = {port.number for port in self._topology.ports_of(where.node)}
        for output in switch.run_until(switch.now_ns + _NS):
            if output.port in used:
                return output.port, output.packet
        return None

    def _copy(self, name: str) -> Switch:
        if name not in self._switches:
            switch = Switch(self._config)
            switch.load(self._prepared)
            wanted = changes(self._entries[name], (), self._program.p4info)
            switch.device.write([change.encode(self._program.p4info) for change in wanted])
            self._switches[name] = switch
        return self._switches[name]

    def close(self) -> None:
        """Free the copies."""
        for switch in self._switches.values():
            switch.close()
        self._switches.clear()
