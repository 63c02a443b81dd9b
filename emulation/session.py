"""A topology brought up, from an empty machine to switches that forward, and taken down again.

    claim the machine -> links, hosts -> switch processes -> program and routes over P4Runtime

Each step is a method, so that the caller can say what is going on. `close` is safe at any moment
and more than once: it works from the run's record, not from what the steps remember.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from controller import BlockingController, BringUp, CompiledProgram, FabricPolicy, TargetFacts
from controller.entry_files import OwnEntries
from controller.target_facts import BMV2_TICK_PS, PACKET_DEPTH
from emulation import teardown
from emulation.endpoints import Endpoints
from emulation.errors import (
    EmulationError,
    LacksCapabilitiesError,
    NotRootError,
    SwitchDiedError,
)
from emulation.fabric_record import FabricRecord
from emulation.host_agent import AgentOutcome, HostAgent
from emulation.host_setup import run_commands
from emulation.link_state import LinkState
from emulation.network import Network
from emulation.run_state import Run
from emulation.supervisor import Supervisor
from emulation.switch_node import (
    FIRST_GRPC_PORT,
    FIRST_THRIFT_PORT,
    OTHER_GRPC_PORTS,
    PRIORITY_QUEUES,
    PortSettings,
    SwitchSettings,
    Target,
    require_target,
    wait_until_ready,
)
from emulation.tcp_ports import TcpPorts
from emulation.teardown import Removed
from emulation.tickers import real_tickers
from mechanisms.tickers import port_report
from topologies import Link, Port, Topology
from topologies.model import RECIRCULATION_PS

if TYPE_CHECKING:
    from emulation.scheduler.scheduler import Scheduler

_CAPABILITIES = {"CAP_NET_ADMIN": 12, "CAP_NET_RAW": 13, "CAP_SYS_ADMIN": 21}
"""What root needs, by its bit (linux/capability.h)."""

_TICK_PS = 1000  # our switch runs with nanosecond ticks and 256-byte cells
_CELL_BYTES = 256
_CLOSE_PATIENCE_S = 2.0


def require_root(command: str) -> None:
    """Check that this process may make namespaces, links and sockets; `command` is what it ran.

    Raises NotRootError, and LacksCapabilitiesError for root without its rights (capabilities(7)).
    """
    if os.geteuid() != 0:
        raise NotRootError(command)
    status = Path("/proc/self/status").read_text()
    found = re.search(r"^CapEff:\s*([0-9a-f]+)$", status, re.MULTILINE)
    effective = int(found[1], 16) if found else -1  # all of them, where the kernel does not say
    lacking = [name for name, bit in _CAPABILITIES.items() if not effective >> bit & 1]
    if lacking:
        raise LacksCapabilitiesError(", ".join(lacking))


class Session:
    """One run of one topology on one target."""

    def __init__(self, topology: Topology, target: Target) -> None:
        self.topology = topology
        self.target = target
        self._run: Run | None = None
        self._network: Network | None = None
        self._controller: BlockingController | None = None
        self._program: CompiledProgram | None = None
        self._supervisor: Supervisor | None = None
        self._host_agent: HostAgent | None = None
        self._tell: Callable[[str], None] = lambda message: None
        self._tcp_ports = TcpPorts()
        self.links = LinkState(self)
        self.endpoints = Endpoints(self)
        self._scheduler: Scheduler | None = None

    @property
    def run(self) -> Run:
        """The run's record; there is one after `claim`."""
        assert self._run is not None, "claim() comes first"
        return self._run

    @property
    def network(self) -> Network:
        """Hosts, links and switch processes; there after `build_network`."""
        assert self._network is not None, "build_network() comes first"
        return self._network

    @property
    def controller(self) -> BlockingController:
        """The controller, connected to all switches; there after `bring_up`."""
        assert self._controller is not None, "bring_up() comes first"
        return self._controller

    @property
    def scheduler(self) -> Scheduler:
        """What takes jobs for the controller."""
        if self._scheduler is None:
            from emulation.scheduler.scheduler import Scheduler  # late: most runs have no jobs

            self._scheduler = Scheduler(self.topology, lambda: self.controller)
        return self._scheduler

    def claim(self, *, keep_logs: bool = False) -> list[Removed]:
        """Become the machine's one run; return what was removed of crashed ones.

        Raises ToolMissingError without the target, RunActiveError while another run is up,
        EmulationError for tickers that are too fast for this machine.
        """
        require_target(self.target)
        real_tickers(self.topology)
        lock, removed = teardown.claim()
        try:
            self._run = Run.start(lock, self.topology.name, keep_logs=keep_logs)
        finally:
            if self._run is None:
                lock.release()
        return removed

    def build_network(self) -> None:
        """Make hosts and links, and start the switch processes. Raises EmulationError.

        The host agent starts beside them: `host_agent_outcome` waits for it.
        """
        self._network = Network(self.topology, self.run)
        if self.topology.hosts:
            self._host_agent = HostAgent(self.run)
            self._host_agent.start()
        emulates_links = self.target is Target.SOFTSWITCH
        self._network.build(self._switch_settings(), pace_hosts=emulates_links)
        self._network.start_switches()
        if self._host_agent is not None:
            self._host_agent.attach(self._network.live_interfaces())

    def host_agent_outcome(self) -> AgentOutcome | None:
        """Wait until the hosts have their XDP program, or can't have it; None without hosts."""
        agent, self._host_agent = self._host_agent, None
        return None if agent is None else agent.finish()

    def wait_for_switches(self) -> None:
        """Wait until all switches are ready. Raises SwitchDiedError with the end of a log."""
        # What comes next needs large modules; the switches leave time to load them.
        loader = threading.Thread(target=_load_modules, daemon=True)
        loader.start()
        while True:
            try:
                wait_until_ready(self.network.switches.values())
                break
            except SwitchDiedError:
                if not self._leave_taken_ports():
                    raise
        loader.join()
        self.network.check_tickers()

    def _leave_taken_ports(self) -> bool:
        """Restart switches whose port another process took first; say if there were any."""
        moved = [
            switch
            for switch in self.network.switches.values()
            if not switch.is_alive() and switch.found_its_port_taken()
        ]
        for switch in moved:
            (port,) = self._tcp_ports.take(1, OTHER_GRPC_PORTS)
            switch.settings = replace(switch.settings, grpc_port=port)
            switch.start([])
            assert switch.process is not None
            self.run.started_processes([(switch.process.pid, f"switch {switch.name}")])
        return bool(moved)

    def supervise(self, tell: Callable[[str], None]) -> None:
        """Start switches that die again from now on; `tell` gets each message, from a thread."""
        self._tell = tell
        self._supervisor = Supervisor(self, tell)
        self._supervisor.start()

    @property
    def is_supervised(self) -> bool:
        """Whether switches that die are started again."""
        return self._supervisor is not None

    def kill_switch(self, name: str) -> None:
        """End a switch's process; it stays away until `revive_switch`. Raises EmulationError."""
        self._watched(name).kill(name)

    def revive_switch(self, name: str) -> None:
        """Start a switch that was killed, and wait until it forwards. Raises EmulationError."""
        self._watched(name).revive(name)

    def _watched(self, name: str) -> Supervisor:
        if self._supervisor is None:
            raise EmulationError(
                f"{name} is left alone: no supervisor watches the switches yet",
                "switches are killed and revived once the run has its prompt: CLI=1",
            )
        return self._supervisor

    def settle(self) -> tuple[str, ...]:
        """Wait, where switches are supervised, until none is on its way back.

        Returns the names of switches that another client has given another program since: they are
        left alone with it.
        """
        if self._supervisor is not None:
            self._supervisor.settle()
        return () if self._controller is None else self._controller.follow()

    def check_switches(self) -> None:
        """Raise EmulationError when a switch or ticker has ended and is not restarted."""
        if self._network is not None and self._supervisor is None:
            for switch in self._network.switches.values():
                switch.check_alive()
        if self._network is not None:
            self._network.check_tickers()

    def bring_up(
        self,
        program: CompiledProgram,
        *,
        programs: Mapping[str, CompiledProgram] | None = None,
        own: Mapping[str, OwnEntries] | None = None,
    ) -> None:
        """Connect to all switches, load the program, install what makes it a fabric.

        `programs`: of switches that run another one; `own`: switches that nothing is planned for,
        and what each is given instead. Raises ControllerError, or SwitchDiedError where that is
        because a switch ended.
        """
        self._controller = self._connect(program, programs, own=own)
        self._controller.bring_up()
        addresses = self._addresses()
        FabricRecord(self.run.name, self.target.value, self.topology, addresses).save()
        self._program = program

    def run_host_commands(self) -> list[str]:
        """Run what hosts do once everything is up; return a line for each command that failed."""
        failures = []
        for host in self.network.live_hosts():
            log = self.run.log_dir / f"{host.name}-commands.log"
            failures += run_commands(host, self.topology.own.commands_of(host.name), log)
        return failures

    def restart_controller(self, election_id: int | None = None) -> BringUp:
        """End the controller, start a new one, and say what that had to load and write.

        It reads back what the switches hold. `election_id`: to take them from another controller.
        Raises ControllerError; the old one stays then, if the new one could not take its place.
        """
        old = self.controller
        assert self._program is not None
        ids = {name: max(each, election_id or 0) for name, each in old.next_election_ids().items()}
        old.check_beatable(ids)  # before the other switches change hands for nothing
        old.retire()
        try:
            new = self._connect(
                self._program,
                old.programs,
                old.links_down,
                old.policy,
                old.own,
                election_id=ids,
                after=old,
            )
        except BaseException:
            old.unretire()
            raise
        self._controller = new
        old.close()
        if self._scheduler is None:
            return new.bring_up()
        return self._scheduler.taken_over(new.bring_up)

    def _connect(
        self,
        program: CompiledProgram,
        programs: Mapping[str, CompiledProgram] | None = None,
        down: Iterable[Link] = (),
        policy: FabricPolicy | None = None,
        own: Mapping[str, OwnEntries] | None = None,
        election_id: Mapping[str, int] | None = None,
        after: BlockingController | None = None,
    ) -> BlockingController:
        return BlockingController(
            self.topology,
            self._addresses(),
            program,
            facts=self.target_facts(),
            policy=policy,
            programs=programs,
            own=own,
            down=down,
            election_id=election_id,
            tell=lambda message: self._tell(message),
            after=after,
        )

    @contextmanager
    def lent(self, switch: str) -> Iterator[int]:
        """Let another client be a switch's primary for the block; yield the election id for that.

        What was written meanwhile stays. Raises ControllerError when the switch is not given back.
        """
        lent = self.controller.lendable_id(switch)
        self.controller.retire()
        try:
            yield lent
        finally:
            try:
                self.controller.take_back(switch, lent + 1)
            finally:
                self.controller.unretire()

    def _addresses(self) -> dict[str, str]:
        return {name: switch.settings.address for name, switch in self.network.switches.items()}

    def moved(self) -> list[str]:
        """Return a line for each thing of this run that has not the name or port it usually has."""
        lines = []
        if why := self.network.names.why_not_plain:
            lines.append(f"interfaces of switches are called {self.run.name}-...: {why}")
        for number, (name, switch) in enumerate(self.network.switches.items()):
            port = switch.settings.grpc_port
            if port != FIRST_GRPC_PORT + number:
                taken = FIRST_GRPC_PORT + number
                lines.append(f"P4Runtime of {name} is at port {port}: {taken} is taken")
        return lines

    def target_facts(self) -> TargetFacts:
        """Return what the controller must know about the switches' units and ports."""
        if self.target is Target.BMV2:
            return TargetFacts(priorities=PRIORITY_QUEUES, time_scale=self.topology.time_scale)
        is_bmv2s = self.topology.own.bmv2_units
        return TargetFacts(
            tick_ps=BMV2_TICK_PS if is_bmv2s else _TICK_PS,
            depth_cell_bytes=PACKET_DEPTH if is_bmv2s else _CELL_BYTES,
            priorities=PRIORITY_QUEUES,
            clone_classes=True,
            reconciles=True,
            watches_ports=True,
            time_scale=self.topology.time_scale,
        )

    def _switch_settings(self) -> dict[str, SwitchSettings]:
        count = len(self.topology.switches)
        wanted = range(FIRST_GRPC_PORT, FIRST_GRPC_PORT + count)
        grpc_ports = self._tcp_ports.take_these(wanted, OTHER_GRPC_PORTS)
        needs_thrift = self.target is Target.BMV2
        thrift_ports = (
            self._tcp_ports.take(count, FIRST_THRIFT_PORT) if needs_thrift else [0] * count
        )
        settings = {}
        tickers, report = real_tickers(self.topology), port_report(self.topology)
        for switch, grpc_port, thrift_port in zip(
            self.topology.switches, grpc_ports, thrift_ports, strict=True
        ):
            ports = self.topology.ports_of(switch.name)
            settings[switch.name] = SwitchSettings(
                target=self.target,
                device_id=switch.device_id,
                grpc_port=grpc_port,
                thrift_port=thrift_port,
                ports=tuple(self._port_settings(switch.name, port) for port in ports),
                log_path=self.run.log_dir / f"{switch.name}.log",
                ready_path=self.run.directory / f"{switch.name}.ready",
                cpu_port=self.topology.own.cpu_port,
                bmv2_units=self.topology.own.bmv2_units,
                recirculation_ns=self.topology.real_duration_ns(RECIRCULATION_PS),
                tickers=tickers.get(switch.name, ()),
                port_report=report,
                ticker_interface=(
                    self.network.ticker_interfaces(switch.name)[0]
                    if self.target is Target.BMV2 and switch.name in tickers
                    else ""
                ),
            )
        return settings

    def _port_settings(self, switch: str, port: Port) -> PortSettings:
        """Return a port's link as it is emulated.

        Between switches each end delays what it sends. A host's end can't, so the switch delays
        both ways there.
        """
        sent_ps = self.topology.delay_from(switch, port.link)
        to_host = not self.topology.is_switch(port.peer.node)
        return PortSettings(
            number=port.number,
            interface=self.network.interface_name(switch, port.number),
            rate_bps=self.topology.real_rate_bps(port.link),
            send_delay_ns=self.topology.real_duration_ns(sent_ps),
            receive_delay_ns=self.topology.real_delay_ns(port.link) if to_host else 0,
            queue_bytes=port.link.queue_bytes,
            weights=self.topology.queue_weights,
        )

    def close(self) -> Removed | None:
        """Take everything down. Returns what was removed, None when there was nothing.

        Raises EmulationError when something can't be removed.
        """
        supervisor, self._supervisor = self._supervisor, None
        if supervisor is not None:
            supervisor.close()
        controller, self._controller = self._controller, None
        if controller is not None:
            # A thread, so that a switch that hangs can't hold up the clean-up.
            closer = threading.Thread(target=controller.close, daemon=True)
            closer.start()
            closer.join(_CLOSE_PATIENCE_S)
        if self._run is None:
            return None
        removed = teardown.remove(self._run.record)
        self._run.finish()
        self._run = None
        self._tcp_ports.release()
        if self._network is not None:
            self._network.release()
        return removed


def _load_modules() -> None:
    for name in ("controller", "emulation.proofs"):
        import_module(name)


def explain(session: Session, error: Exception) -> Exception:
    """Return the error to show: that a switch died explains what others then complain about."""
    try:
        session.check_switches()
    except EmulationError as death:
        return death
    return error
