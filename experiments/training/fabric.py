"""The fabric that a job trains on: one that is brought up for it, or the one that is up already."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from controller.program import CompiledProgram
from emulation import control, fabric_record, run_state
from emulation.interrupts import Interrupts, handled
from emulation.link_state import find_links
from emulation.network import namespace_name
from emulation.session import Session, explain, require_root
from emulation.switch_node import Target
from mechanisms.switch_programs import around, choose
from observe.errors import UsageError
from softswitch.diagnostics import DiagnosticsClient
from softswitch.impairments import changes
from topologies.model import Endpoint, Interface, Topology

Step = Callable[[str], None]
"""Receives progress while a fabric is brought up."""


@dataclass
class Fabric:
    """A fabric that forwards. `directory`: its run's, with what has to outlive a job."""

    run: str
    topology: Topology
    runtime: str
    addresses: dict[str, str]
    directory: Path
    session: Session | None = None
    interrupts: Interrupts | None = None
    lost: dict[Endpoint, str] = field(default_factory=dict)

    def namespace(self, host: str) -> str:
        """Return the network namespace of a host."""
        return namespace_name(self.run, host)

    def interface(self, interface: Interface) -> str:
        """Return the name of a host's interface, in its namespace."""
        return f"{interface.host}-eth{interface.number}"

    def do(self, words: Sequence[str]) -> str:
        """Make a fault happen, by its words (`faults.fault`); return what was done.

        Raises EmulationError, ControllerError, DiagnosticsError.
        """
        match tuple(words):
            case ("kill" | "revive" as verb, switch):
                return self._switch(verb, switch)
            case ("down" | "up" as state, a, b):
                return self._link(a, b, state)
            case ("loss", share, *ends):
                return self._lose(share, ends)
        raise ValueError(f"no fault: {words}")

    def _switch(self, verb: str, switch: str) -> str:
        if self.session is None:
            return "; ".join(control.ask(verb, [switch]))
        (self.session.kill_switch if verb == "kill" else self.session.revive_switch)(switch)
        return f"{switch}: {verb}ed" if verb == "kill" else f"{switch}: {verb}d"

    def _link(self, a: str, b: str, state: str) -> str:
        if self.session is None:
            return "; ".join(control.ask("link", [a, b, state]))
        self.session.links.switch(find_links(self.topology, a, b), up=state == "up")
        return f"{a} - {b}: {state}"

    def _lose(self, share: str, ends: Sequence[str]) -> str:
        """Lose a share of the frames in both directions of links, of all if none is named."""
        if self.runtime != Target.SOFTSWITCH.value:
            raise UsageError("BMv2 loses nothing on links: loss is for the softswitch")
        links = find_links(self.topology, *ends) if ends else self.topology.links
        changed = {end: share for link in links for end in (link.a, link.b)}
        self.lost |= changed
        for switch in {end.node for end in changed if self.topology.is_switch(end.node)}:
            self.apply_to(switch)
        where = " - ".join(ends) if ends else f"all {len(links)} links, both directions"
        return f"loss of {share} on {where}"

    def apply_to(self, switch: str) -> None:
        """Let a switch's ports lose what they should; also of one that was started again.

        Each end of a link between switches loses what it sends. A host's end can't, so the switch
        loses what it receives from it, too.
        """
        with DiagnosticsClient(self.addresses[switch]) as client:
            for end, share in self.lost.items():
                if end.node != switch:
                    continue
                loss = changes(loss=share)
                peer = self.topology.peer(switch, end.port)
                is_host = not self.topology.is_switch(peer.node)
                client.set_link(end.port, send=loss, receive=loss if is_host else None)


def running() -> Fabric:
    """Return the fabric that is up. Raises NoRunError, NotRootError."""
    require_root("weft train")
    found = fabric_record.running()
    directory = run_state.run_root() / found.run
    return Fabric(found.run, found.topology, found.runtime, dict(found.addresses), directory)


@contextmanager
def brought_up(
    topology: Topology,
    target: Target,
    step: Step,
    tell: Callable[[str], None],
    program: CompiledProgram | None = None,
) -> Iterator[Fabric]:
    """Bring a fabric up for the block; nothing of it is left after that.

    `tell` gets what becomes of its switches, from a thread; `program`: of switches for which the
    topology names none, in the place of fabric.p4 as the topology needs it. Raises EmulationError,
    ControllerError, CompileError.
    """
    require_root("weft train")
    session = Session(topology, target)
    try:
        with handled() as interrupts:
            try:
                yield _up(session, interrupts, step, tell, program)
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


def _up(
    session: Session,
    interrupts: Interrupts,
    step: Step,
    tell: Callable[[str], None],
    program: CompiledProgram | None,
) -> Fabric:
    topology = session.topology
    session.claim()
    step("compile")
    facts = session.target_facts()
    if program is None:
        chosen = choose(topology, facts).programs
    else:
        chosen = around(topology, facts, program)
    step("network")
    session.build_network()
    session.wait_for_switches()
    step("program and routes")
    session.bring_up(chosen.program, programs=chosen.others, own=chosen.own)
    session.run_host_commands()
    session.host_agent_outcome()
    session.supervise(tell)
    interrupts.check()
    addresses = {name: switch.settings.address for name, switch in session.network.switches.items()}
    fabric = Fabric(
        session.run.name,
        topology,
        session.target.value,
        addresses,
        session.run.directory,
        session,
        interrupts,
    )
    session.links.on_return(fabric.apply_to)
    return fabric
