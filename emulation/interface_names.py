"""What switches' interfaces are called: s1-eth2 as in Mininet, or with the run's prefix.

Switches' ports are in the root namespace, where a name can be given once. So one run at a time has
the plain names, and only if no other program has one; other runs' carry their id. Either way
the name with the id finds the interface (as its alternative name), and nothing but an interface of
this run: it is the one that the record lists and clean-up removes.
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Mapping

from emulation import interface
from topologies import Endpoint, Topology

_NAME_LIMIT = 15  # IFNAMSIZ - 1
_CLAIM = "\0weft-interface-names"
_ALTERNATIVE_NAMES = (5, 5)  # the first Linux that has them


def run_name(run: str, index: int, switch: str, port: int | str) -> str:
    """Return a switch port's name with its run, `w3f2a-s1-2`; `index` counts the switches.

    Names that Linux would refuse for their length name the switch by its index: `w3f2a-n17-2`.
    """
    name = f"{run}-{switch}-{port}"
    return name if len(name) <= _NAME_LIMIT else f"{run}-n{index}-{port}"


class InterfaceNames:
    """The names of a run's interfaces at switches; `release` leaves the plain ones to others."""

    def __init__(self, topology: Topology, run: str) -> None:
        """Choose them. `why_not_plain` says why they carry the run's id, empty if they do not."""
        index = {switch.name: number for number, switch in enumerate(topology.switches, 1)}
        ends = [end for link in topology.links for end in (link.a, link.b) if end.node in index]
        self._claim: socket.socket | None = None
        self.recorded = {end: run_name(run, index[end.node], end.node, end.port) for end in ends}
        plain = {end: f"{end.node}-eth{end.port}" for end in ends}  # a node's name: 8 at most
        self.why_not_plain = self._why_not(plain)
        self.shown: Mapping[Endpoint, str] = self.recorded if self.why_not_plain else plain

    def _why_not(self, plain: Mapping[Endpoint, str]) -> str:
        if _kernel() < _ALTERNATIVE_NAMES:
            return "this kernel has no alternative names for interfaces"
        claim = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            claim.bind(_CLAIM)
        except OSError:
            claim.close()
            return "another run has the names without it"
        taken = next(filter(interface.exists, plain.values()), None)
        if taken is not None:
            claim.close()
            return f"another program has an interface called {taken}"
        self._claim = claim
        return ""

    def commands(self) -> list[str]:
        """Return `ip` commands that give interfaces, made under recorded names, those shown."""
        if self.why_not_plain:
            return []
        # Should this be cut off in between, the link goes with its other end.
        return [
            line
            for end, name in self.shown.items()
            for line in (
                f"link set {self.recorded[end]} name {name}",
                f"link property add dev {name} altname {self.recorded[end]}",
            )
        ]

    def release(self) -> None:
        """Let another run have the plain names. The kernel does it, too, when this process ends."""
        if self._claim is not None:
            self._claim.close()
            self._claim = None


def _kernel() -> tuple[int, ...]:
    found = re.match(r"(\d+)\.(\d+)", os.uname().release)
    return tuple(map(int, found.groups())) if found else ()
