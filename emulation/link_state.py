"""Taking links of a running fabric down and up, as if the cable were pulled.

A link between two of our switches goes down by both switches' ports, over their side channel. A
link to a host goes down by the switch's interface: the host then sees no carrier. BMv2 forwards
nothing any more once an interface of its was down, until it is started again; so its links stay up
to the kernel, and both ends get a queue that drops everything. Each way nothing passes in either
direction, and the controller routes around it.
"""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from controller import ControllerError, SwitchUnreachable
from controller.errors import failures, is_elsewhere
from emulation.errors import EmulationError
from emulation.switch_node import Target
from softswitch.diagnostics import DiagnosticsClient, DiagnosticsError
from topologies import Endpoint, Link, Topology

if TYPE_CHECKING:
    from emulation.session import Session

_LINKS = Path("/sys/class/net")
_ADMIN_UP = 0x1
_DEAD = ("down", None)  # a port's states; None: its switch does not answer


class NoSuchLinkError(EmulationError):
    """Two names between which there is no link, or more than one."""


def find_links(topology: Topology, a: str, b: str) -> list[Link]:
    """Return the links between two ends, each a node (s1) or one of its ports (s1:3, h1:1).

    Raises NoSuchLinkError.
    """
    found = [
        link
        for link in topology.links
        if (_is(link.a, a) and _is(link.b, b)) or (_is(link.a, b) and _is(link.b, a))
    ]
    if not found:
        node = a.partition(":")[0]
        neighbours = [
            str(end)
            for link in topology.links
            for end in (link.a, link.b)
            if node in (link.a.node, link.b.node) and end.node != node
        ]
        hint = f"{node} has links to {', '.join(neighbours)}" if neighbours else "see: links"
        raise NoSuchLinkError(f"there is no link between {a} and {b}", hint)
    return found


def _is(end: Endpoint, name: str) -> bool:
    return name in (end.node, f"{end.node}:{end.port}")


@dataclass(frozen=True)
class Switched:
    """What switching links did: how many, and how many updates the controller wrote."""

    links: tuple[Link, ...]
    updates: int


class LinkState:
    """Which links of a run are down, and how they get there."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._down: set[Link] = set()
        self._switching = threading.Lock()
        self._on_return: list[Callable[[str], None]] = []

    @property
    def down(self) -> frozenset[Link]:
        """The links that were taken down."""
        return frozenset(self._down)

    def switch(self, links: list[Link], up: bool) -> Switched:
        """Take links down or up at both ends, then let the controller route.

        Raises EmulationError when an end can't be switched, ControllerError from the routing.
        """
        updates = 0
        unwritten: list[ControllerError] = []
        with self._switching:
            for link in links:
                for end in self._ends(link):
                    self._switch_end(link, end, up)
                (self._down.discard if up else self._down.add)(link)
                if self._joins_switches(link):
                    try:
                        updates += self._route(link, up)
                    except ControllerError as error:
                        if not is_elsewhere(error):
                            raise
                        unwritten.append(error)  # the other links are to be switched all the same
        if unwritten:
            raise unwritten[-1]
        return Switched(tuple(links), updates)

    def _route(self, link: Link, up: bool) -> int:
        """Inform the controller; a supervised switch that is away is updated when it is back."""
        try:
            return self._session.controller.set_link(link, up)
        except ControllerError as error:
            gone = all(isinstance(failure, SwitchUnreachable) for failure in failures(error))
            if gone and self._session.is_supervised:
                return 0
            raise

    def on_return(self, action: Callable[[str], None]) -> None:
        """Do `action` too for each switch that was started again."""
        self._on_return.append(action)

    def apply_to(self, switch: str) -> None:
        """Bring a switch that was started again to the state of its links."""
        for port in self._session.topology.ports_of(switch):
            if port.link in self._down:
                self._switch_end(port.link, Endpoint(switch, port.number), up=False)
        for action in self._on_return:
            action(switch)

    def up(self) -> dict[Link, bool]:
        """Say of each link whether it passes packets, as its interfaces and switch ports are now.

        Raises EmulationError when a switch does not answer.
        """
        dead = self._dead_ports()
        return {
            link: link not in self._down
            and not any(
                end in dead or not _is_admin_up(self._interface(end))
                for end in self._switch_ends(link)
            )
            for link in self._session.topology.links
        }

    def _dead_ports(self) -> set[Endpoint]:
        session = self._session
        dead: set[Endpoint] = set()
        if session.target is not Target.SOFTSWITCH:
            return dead
        for name, switch in session.network.switches.items():
            try:
                with DiagnosticsClient(switch.settings.address) as client:
                    ports = client.port_stats()
            except DiagnosticsError as error:
                if not error.gone:
                    raise EmulationError(f"{name}: {error}") from None
                ports = {port.number: {} for port in session.topology.ports_of(name)}
            dead |= {Endpoint(name, n) for n, row in ports.items() if row.get("state") in _DEAD}
        return dead

    def _joins_switches(self, link: Link) -> bool:
        topology = self._session.topology
        return topology.is_switch(link.a.node) and topology.is_switch(link.b.node)

    def _switch_ends(self, link: Link) -> list[Endpoint]:
        topology = self._session.topology
        return [end for end in (link.a, link.b) if topology.is_switch(end.node)]

    def _ends(self, link: Link) -> list[Endpoint]:
        """Return the ends at which a link is taken down."""
        if self._session.target is Target.SOFTSWITCH:
            return self._switch_ends(link)
        return [link.a, link.b]

    def _interface(self, end: Endpoint) -> str:
        return self._session.network.interface_name(end.node, end.port)

    def _switch_end(self, link: Link, end: Endpoint, up: bool) -> None:
        session = self._session
        if session.target is not Target.SOFTSWITCH:
            self._set_passing(end, up)
            return
        if not self._joins_switches(link):
            _run(["ip", "link", "set", "dev", self._interface(end), "up" if up else "down"])
            return
        address = session.network.switches[end.node].settings.address
        try:
            with DiagnosticsClient(address) as client:
                client.set_port(end.port, up)
        except DiagnosticsError as error:
            if error.gone and session.is_supervised:
                return  # it comes back with `apply_to`
            raise EmulationError(f"{end}: {error}") from None

    def _set_passing(self, end: Endpoint, up: bool) -> None:
        network, topology = self._session.network, self._session.topology
        tc = ["tc", "qdisc"]
        if not topology.is_switch(end.node):
            tc = ["ip", "netns", "exec", network.namespace_name(end.node), *tc]
        name = self._interface(end)
        there = subprocess.run(
            [*tc, "show", "dev", name], capture_output=True, text=True, check=False
        )
        drops = "qdisc blackhole" in there.stdout
        if not up:
            _run([*tc, "replace", "dev", name, "root", "blackhole"])
        elif drops:
            _run([*tc, "del", "dev", name, "root"])


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise EmulationError(f"{' '.join(command)}: {done.stderr.strip()}")


def _is_admin_up(name: str) -> bool:
    try:
        return bool(int((_LINKS / name / "flags").read_text(), 16) & _ADMIN_UP)
    except (OSError, ValueError):
        return False
