"""A topology as a Mininet network: hosts in namespaces, links as veth pairs, switches' ports.

Hosts are Mininet hosts. Switches' ports stay in the root namespace, where their processes run and
`tcpdump -i` finds them (their names: `emulation.interface_names`). Mininet's own start-up (it
changes system-wide settings) and clean-up (it removes what is not its own) are not used: what is
made here is in the run's record, and `emulation.teardown` removes it.
"""

from __future__ import annotations

import shutil
import socket
import subprocess
from collections.abc import Iterator
from typing import Any

from mininet.link import Intf, Link
from mininet.log import setLogLevel
from mininet.net import Mininet
from mininet.node import Host as MininetHost

from emulation import host_names, interface, namespace
from emulation.errors import EmulationError, ToolMissingError
from emulation.host_setup import static_neighbours
from emulation.interface_names import InterfaceNames, run_name
from emulation.live_host import LiveHost
from emulation.run_state import SHELL_ROLE, Run
from emulation.switch_node import SwitchNode, SwitchSettings
from emulation.tickers import TickerProcess
from softswitch.ticker_options import TICKER_PORT
from topologies import Endpoint, Host, Interface, Topology
from topologies.reach import Reach

# Switches add headers to full packets, so their ends take more than the hosts'. Native XDP on veth
# ends at 3498, which is no limit for hosts with larger packets: those do without it.
SWITCH_MTU = 3400
HEADROOM_BYTES = 256
MAX_NODES = 512  # a namespace, a shell and some links each; more belongs to the simulator

_FIRST_ROUTE_TABLE = 100
_PROGRAMS = {"mnexec": "mininet", "ifconfig": "net-tools", "ip": "iproute2"}


def namespace_name(run: str, host: str) -> str:
    """Return the name under which `ip netns exec` finds a host of a run."""
    return f"{run}-{host}"


class _QuietIntf(Intf):  # type: ignore[misc]
    """An interface that Mininet knows but does not configure: that is done in batches."""

    def config(self, **_params: Any) -> dict[str, Any]:
        return {}


class _Network(Mininet):  # type: ignore[misc]
    """Mininet's registry of nodes and links, without its changes to the system's settings."""

    inited = True


class Network:
    """The emulated network of one run. Make it, `build` it, use `hosts` and `switches`."""

    def __init__(self, topology: Topology, run: Run) -> None:
        self.topology = topology
        self.reach = Reach(topology)
        self.run = run
        self.hosts: dict[str, MininetHost] = {}
        self.switches: dict[str, SwitchNode] = {}
        self.hosts_are_paced = False
        self.tickers: list[TickerProcess] = []
        self.names = InterfaceNames(topology, run.name)
        setLogLevel("error")
        self._net = _Network(controller=None, switch=SwitchNode, link=Link, intf=_QuietIntf)

    def ticker_interfaces(self, switch: str) -> tuple[str, str]:
        """Return the ends of the pair by which a switch's ticks come: the port's, the process's."""
        index = next(
            number for number, each in enumerate(self.topology.switches, 1) if each.name == switch
        )
        port, process = (
            run_name(self.run.name, index, switch, end) for end in (TICKER_PORT, f"t{TICKER_PORT}")
        )
        return port, process

    def release(self) -> None:
        """Let go of what this process holds of it, once it is gone: names, and shells' terminals.

        Mininet opens a terminal a node; hundreds of runs in one process would use up its files.
        """
        self.names.release()
        for node in (*self.hosts.values(), *self.switches.values()):
            node.cleanup()

    def interface_name(self, node: str, port: int = 0) -> str:
        """Return the name of a node's interface. Raises KeyError for a port not in use."""
        end = Endpoint(node, port)
        if self.topology.is_switch(node):
            return self.names.shown[end]
        self.topology.link_at(node, port)
        return f"{node}-eth{port}"

    def namespace_name(self, host: str) -> str:
        """Return the name under which `ip netns exec` finds a host."""
        return namespace_name(self.run.name, host)

    def build(self, settings: dict[str, SwitchSettings], *, pace_hosts: bool = False) -> None:
        """Make hosts, links and (not yet started) switches; `settings` by switch name.

        With `pace_hosts` hosts send no faster than their links' rate at this time scale;
        `hosts_are_paced` then says whether the kernel can do that. Raises EmulationError or
        ToolMissingError; what was made until then is in the record.
        """
        self._check_fit()
        topology = self.topology
        self.run.will_make(
            links=self.names.recorded.values(),
            namespaces=[self.namespace_name(host.name) for host in topology.hosts],
        )
        for host in topology.hosts:
            self._add_host(host)
        for switch in topology.switches:
            self.switches[switch.name] = self._net.addSwitch(
                switch.name, dpid=f"{switch.device_id:x}", settings=settings[switch.name]
            )
        self.run.started_processes(
            (node.pid, f"{SHELL_ROLE} of {node.name}")
            for node in (*self.hosts.values(), *self.switches.values())
        )
        for link in topology.links:
            self._add_link(link.a, link.b)
        self._configure_ports()
        for switch in self.switches.values():
            if switch.settings.ticker_interface:
                self._add_ticker_pair(switch.name)
        for host in topology.hosts:
            self._configure_host(host)
        host_names.write(self.run, self.live_interfaces())
        if pace_hosts:
            self.hosts_are_paced = all(self._pace(host) for host in topology.hosts)

    def _pace(self, host: Host) -> bool:
        pid = self.hosts[host.name].pid
        return all(
            interface.limit_rate(
                self.interface_name(host.name, port.number),
                pid,
                self.topology.real_rate_bps(port.link),
                port.link.queue_bytes,
                port.link.mtu_bytes,
            )
            for port in self.topology.ports_of(host.name)
        )

    def live_hosts(self) -> list[LiveHost]:
        """Return the running hosts by their first interfaces, in the topology's order."""
        return [self._live(host.interfaces[0]) for host in self.topology.hosts]

    def live_interfaces(self) -> list[LiveHost]:
        """Return every interface of the running hosts; all but the first are called h1:1."""
        return [self._live(part) for part in self.topology.interfaces()]

    def _live(self, part: Interface) -> LiveHost:
        return LiveHost(
            name=str(part.end),
            pid=self.hosts[part.host].pid,
            namespace=self.namespace_name(part.host),
            address=str(part.address.ip),
            mac=part.mac,
            interface=self.interface_name(part.host, part.number),
            gateway=str(part.gateway),
            switch=part.switch,
        )

    def _check_fit(self) -> None:
        nodes = len(self.topology.hosts) + len(self.topology.switches)
        if nodes > MAX_NODES:
            raise EmulationError(
                f"{self.topology.name} has {nodes} nodes; as namespaces and processes on one "
                f"machine there is room for {MAX_NODES}",
                "run it in the simulator, or choose a smaller topology",
            )
        for program, package in _PROGRAMS.items():
            if shutil.which(program) is None:
                raise ToolMissingError(
                    f"{program} is not installed", f"make setup (or: apt-get install {package})"
                )

    def _add_host(self, host: Host) -> None:
        node = self._net.addHost(host.name, ip=None)
        self.hosts[host.name] = node
        with namespace.entered(node.pid):
            for name in ("all", "default"):
                interface.ipv6_off(name)

    def _add_link(self, a: Endpoint, b: Endpoint) -> None:
        # Mininet makes the first interface in the caller's namespace: a switch's comes first.
        if not self.topology.is_switch(a.node):
            a, b = b, a
        try:
            self._net.addLink(
                self._net[a.node],
                self._net[b.node],
                port1=a.port,
                port2=b.port,
                intfName1=self.names.recorded[a],
                intfName2=self.names.recorded.get(b) or self.interface_name(b.node, b.port),
            )
        except Exception as error:  # Mininet raises the bare class, with ip's output
            raise EmulationError(f"can't make the link {a} - {b}: {error}") from None

    def _configure_ports(self) -> None:
        made = list(self.names.recorded.values())
        for name in made:
            interface.ipv6_off(name)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as here:
            interface.offloads_off(made, here)
        # Without ARP the root namespace's kernel answers nobody's request for its own addresses.
        settings = [
            f"link set {name} mtu {self._switch_mtu(end)} arp off up"
            for end, name in self.names.shown.items()
        ]
        attach = [
            f"netns attach {self.namespace_name(name)} {node.pid}"
            for name, node in self.hosts.items()
        ]
        self._ip(self.names.commands() + settings + attach)

    def _switch_mtu(self, end: Endpoint) -> int:
        return max(SWITCH_MTU, self.topology.link_at(end.node, end.port).mtu_bytes + HEADROOM_BYTES)

    def _add_ticker_pair(self, switch: str) -> None:
        ends = self.ticker_interfaces(switch)
        self.run.will_make(links=ends)
        self._ip([f"link add {ends[0]} type veth peer name {ends[1]}"])
        for name in ends:
            interface.ipv6_off(name)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as here:
            interface.offloads_off(list(ends), here)
        self._ip([f"link set {name} arp off up" for name in ends])

    def _ip(self, commands: list[str], pid: int | None = None) -> None:
        """Run `ip` once for many commands, in the namespace of `pid` if given."""
        if not commands:
            return
        enter = [] if pid is None else ["mnexec", "-a", str(pid)]
        done = subprocess.run(
            [*enter, "ip", "-batch", "-"],
            input="\n".join(commands),
            text=True,
            capture_output=True,
            check=False,
        )
        if done.returncode != 0:
            raise EmulationError(f"ip: {done.stderr.strip() or done.stdout.strip()}")

    def _configure_host(self, host: Host) -> None:
        node = self.hosts[host.name]
        names = [self.interface_name(host.name, part.number) for part in host.interfaces]
        with namespace.open_socket(node.pid, socket.AF_INET, socket.SOCK_DGRAM) as there:
            interface.offloads_off(names, there)
        commands = ["link set lo up"]
        for part, name in zip(host.interfaces, names, strict=True):
            mtu = self.topology.link_at(host.name, part.number).mtu_bytes
            commands.append(f"link set {name} mtu {mtu} address {part.mac} up")
            commands.append(f"address add {part.address} broadcast + dev {name}")
        commands.append(f"route add default via {host.gateway} dev {names[0]}")
        if len(names) > 1:
            commands += self._routes_of_several(host, names)
            with namespace.entered(node.pid):
                interface.arp_by_interface()
        if self.topology.own.static_arp:
            commands += static_neighbours(self.topology, host, names)
        self._ip(commands, node.pid)
        for part, name in zip(host.interfaces, names, strict=True):
            known = node.intf(name)
            known.ip = str(part.address.ip)
            known.prefixLen = str(part.address.network.prefixlen)
            known.mac = part.mac

    def _routes_of_several(self, host: Host, names: list[str]) -> Iterator[str]:
        """Yield `ip` commands that give each of a host's interfaces its own way.

        What is sent from an interface's address leaves by that interface. A sender that names no
        address takes the interface whose plane has the destination, the first one if several do.
        """
        for part, name in zip(host.interfaces, names, strict=True):
            table = _FIRST_ROUTE_TABLE + part.number
            yield f"rule add from {part.address.ip} lookup {table}"
            yield f"route add {part.address.network} dev {name} table {table}"
            yield f"route add default via {part.gateway} dev {name} table {table}"
        planes = {self.reach.islands[host.switch]}
        for part, name in zip(host.interfaces, names, strict=True):
            if self.reach.islands[part.switch] not in planes:
                planes.add(self.reach.islands[part.switch])
                for network in self.reach.networks_beyond(part):
                    yield f"route add {network} via {part.gateway} dev {name}"

    def start_switches(self) -> None:
        """Start all switch processes side by side; they are not ready yet on return."""
        for switch in self.switches.values():
            switch.start([])
        self.run.started_processes(
            (switch.process.pid, f"switch {switch.name}")
            for switch in self.switches.values()
            if switch.process is not None
        )
        self.start_tickers()

    def start_tickers(self) -> None:
        """Start the processes that tick for switches that can't; `start_switches` does, too."""
        for switch in self.switches.values():
            if not switch.settings.ticker_interface:
                continue
            log = switch.settings.log_path.with_suffix(".ticks.log")
            end = self.ticker_interfaces(switch.name)[1]
            process = TickerProcess(switch.name, end, switch.settings.tickers, log)
            self.tickers.append(process)
            self.run.started_processes([(process.pid, f"ticker of {switch.name}")])

    def check_tickers(self) -> None:
        """Raise EmulationError when a process that ticks for a switch has ended."""
        for process in self.tickers:
            process.check_alive()
