"""A topology in virtual time: switches, hosts and links on one engine.

Switches run the program that real ones run, with the same ports, queues and schedulers; a host's
links are delayed at both ends, since here hosts can. Whatever is scaled is scaled by the topology.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from controller.program import CompiledProgram
from controller.target_facts import BMV2_TICK_PS, PACKET_DEPTH, TargetFacts
from simulator.core.binding import Engine, HostPort
from softswitch.core import CoreConfig, PortConfig, Scheduler
from softswitch.device import Device
from softswitch.link_settings import LinkChange
from softswitch.p4runtime import pipeline
from topologies.events import PortCall
from topologies.model import RECIRCULATION_PS, Endpoint, Host, Link, Port, Topology
from topologies.tickers import TICKER_PORT

TICK_PS = 1000
CELL_BYTES = 256
LONG_CELL_BYTES = 512
"""The cell of switches with ports of more than 100 km."""
LONG_PS = 500_000_000
PRIORITIES = 8
PACKETS = 0
"""As a size of cells: queue depths are in packets."""


@dataclass(frozen=True)
class Virtual:
    """A simulated switch: its node on the engine, and P4Runtime's view of it."""

    node: int
    device: Device


def mac_number(mac: str) -> int:
    """Return a MAC address in the engine's form."""
    return int(mac.replace(":", ""), 16)


def target_facts(topology: Topology) -> TargetFacts:
    """Return what the controller must know of simulated switches."""
    return TargetFacts(
        tick_ps=tick_ps(topology),
        depth_cell_bytes=cell_bytes(topology) or PACKET_DEPTH,
        priorities=PRIORITIES,
        clone_classes=True,
        reconciles=True,
        watches_ports=True,
        digest_jitter_ns=0,
        time_scale=topology.time_scale,
    )


def tick_ps(topology: Topology) -> int:
    """Return the tick of P4's timestamps in all switches of a run."""
    return BMV2_TICK_PS if topology.own.bmv2_units else TICK_PS


def cell_bytes(topology: Topology) -> int:
    """Return the unit of queue depths in all switches of a run; PACKETS where it is packets."""
    if topology.own.bmv2_units:
        return PACKETS
    longest = max((link.delay_ps for link in topology.links), default=0)
    return LONG_CELL_BYTES if longest > LONG_PS else CELL_BYTES


def core_seed(seed: int, number: int) -> int:
    """Return the seed of a run's switch."""
    return (seed * 1_000_003 + number) & (1 << 64) - 1


class Fabric:
    """The network of one run. Switches hold the program, and no entries yet."""

    def __init__(
        self,
        topology: Topology,
        program: CompiledProgram,
        *,
        seed: int = 1,
        progress: Callable[[int, int], None] | None = None,
        others: Mapping[str, CompiledProgram] | None = None,
    ) -> None:
        """`progress(made, all)` is called for each switch.

        `others`: programs of switches that run another one. Raises PipelineError.
        """
        self.topology = topology
        self.engine = Engine(seed)
        self.port_report = b""
        self.switches: dict[str, Virtual] = {}
        self.nodes: dict[str, int] = {}
        self.names: list[str] = []
        usual = pipeline.prepare(program.p4info.message, program.device_config)
        self._prepared = {switch.name: usual for switch in topology.switches}
        for name, other in (others or {}).items():
            info = other.p4info.message
            self._prepared[name] = pipeline.prepare(info, other.device_config)
        cell = cell_bytes(topology)
        for number, switch in enumerate(topology.switches):
            core = self.engine.new_core(
                CoreConfig(
                    cpu_port=topology.own.cpu_port,
                    priorities=PRIORITIES,
                    tick_ps=tick_ps(topology),
                    depth_cell_bytes=cell,
                    recirculate_ps=RECIRCULATION_PS * topology.time_scale,
                    seed=core_seed(seed, number),
                )
            )
            device = Device(core, clock=lambda: self.engine.now)
            device.load(self._prepared[switch.name])
            for port in topology.ports_of(switch.name):
                self._configure(device, switch.name, port)
            node = self.engine.add_switch(core)
            self.switches[switch.name] = Virtual(node, device)
            self._named(switch.name, node)
            if progress is not None:
                progress(number + 1, len(topology.switches))
        for host in topology.hosts:
            self._named(host.name, self.engine.add_host(self._interfaces(host)))
        self.links = {
            link: self.engine.add_link(
                self.nodes[link.a.node], link.a.port, self.nodes[link.b.node], link.b.port
            )
            for link in topology.links
        }

    def seed(self, seed: int) -> None:
        """Be as if made with this seed, before anything was sent."""
        self.engine.seed(seed)
        for number, switch in enumerate(self.topology.switches):
            self.switches[switch.name].device.core.seed(core_seed(seed, number))

    def _named(self, name: str, node: int) -> None:
        self.nodes[name] = node
        self.names.append(name)

    def _configure(self, device: Device, switch: str, port: Port) -> None:
        topology = self.topology
        device.core.configure_port(
            port.number,
            PortConfig(
                rate_bps=topology.real_rate_bps(port.link),
                tx_delay_ps=topology.delay_from(switch, port.link) * topology.time_scale,
                queue_packets=0,
                queue_bytes=port.link.queue_bytes,
            ),
        )
        if topology.queue_weights:
            weights = dict(topology.queue_weights)
            device.core.schedule_port(port.number, Scheduler.of_weights(weights))

    def _interfaces(self, host: Host) -> list[HostPort]:
        topology = self.topology
        found = []
        for interface in host.interfaces:
            link = topology.link_at(host.name, interface.number)
            found.append(
                HostPort(
                    rate_bps=topology.real_rate_bps(link),
                    delay_ps=link.delay_ps * topology.time_scale,
                    mac=mac_number(interface.mac),
                    gateway_mac=mac_number(topology.switch(interface.switch).mac),
                    ip=int(interface.address.ip),
                    mtu=link.mtu_bytes,
                )
            )
        return found

    # --- changes while it runs ------------------------------------------------------------------

    def set_link(self, link: Link, up: bool) -> None:
        """Take a link down at both ends, or up."""
        self.engine.set_link(self.links[link], up)

    def drain(self, end: Endpoint, on: bool) -> None:
        """Let a host send nothing new by one of its interfaces, or let it again."""
        self.engine.drain(self.nodes[end.node], end.port, on)

    def change_port(self, call: PortCall) -> None:
        """Change other settings of a port's link, from now on."""
        switch = self.switches[call.switch]
        arguments = dict(call.arguments)
        delay = arguments.pop("rx_delay_ps", None)
        if isinstance(delay, int):
            self._delay_host(call.switch, call.port, delay)
        LinkChange.read(arguments).apply(switch.device.core, call.port)
        self.engine.touch(switch.node)

    def _delay_host(self, switch: str, port: int, delay_ps: int) -> None:
        """Delay what a host sends in the host itself: no switch delays it on arrival."""
        end = self.topology.peer(switch, port)
        host = self.topology.host(end.node)
        config = self._interfaces(host)[end.port]
        self.engine.configure_host_port(
            self.nodes[host.name], end.port, replace(config, delay_ps=delay_ps)
        )

    def restart(self, switch: str) -> None:
        """Restart a switch's program: no entries, no packets."""
        self.switches[switch].device.load(self._prepared[switch])

    def kill(self, switch: str, *, alive: bool) -> None:
        """Switch a switch off, which loses its queues, or on again."""
        virtual = self.switches[switch]
        # While it is off, its ports are not reported to it; once it returns, those that are down.
        virtual.device.core.report_ports(TICKER_PORT, b"")
        self.engine.set_node(self.nodes[switch], alive)
        if alive:
            virtual.device.core.report_ports(TICKER_PORT, self.port_report)
            virtual.device.core.report_down_ports()
            self.engine.touch(virtual.node)
