"""Control loops: how long it takes from a switch to a source and back, and so until a word helps.

A source that is told lowers its rate at once; what it has sent before is still on its way. The loop
is the way's delay there and back, switches' latencies with it, what a data packet waits for at each
hop until it is whole, and the pass through the switch that makes the notification.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from controller.routing import Paths
from topologies.model import RECIRCULATION_PS, Interface, Link, Topology

PS_PER_S = 1_000_000_000_000
FRAME_BYTES = 38  # Ethernet's header, FCS, preamble and gap


def packet_ps(link: Link) -> int:
    """How long a packet of the link's MTU takes on it, in fabric picoseconds."""
    return (link.mtu_bytes + FRAME_BYTES) * 8 * PS_PER_S // link.rate_bps


@dataclass
class Loops:
    """The loops of one topology with its current paths; times in fabric picoseconds."""

    topology: Topology
    paths: Paths
    _from: dict[tuple[str, str], int | None] = field(default_factory=dict)

    def loop_ps(self, switch: str, source: Interface) -> int | None:
        """From a switch to a source and back by the longest of the ways; None: there is none."""
        way = self._way_ps(switch, source.switch)
        if way is None:
            return None
        link = self.topology.link_at(source.switch, source.port)
        return RECIRCULATION_PS + way + self.topology.there_and_back_ps(link) + packet_ps(link)

    def to_sources(self, switch: str) -> Mapping[Interface, int]:
        """The loops to all hosts' interfaces that a switch can reach, in the topology's order."""
        found = {each: self.loop_ps(switch, each) for each in self.topology.interfaces()}
        return {each: loop for each, loop in found.items() if loop is not None}

    def leads_to(self, switch: str, port: int, interface: Interface) -> bool:
        """Whether a switch may send a packet for an interface out of a port."""
        if switch == interface.switch:
            return port == interface.port
        return port in self.paths.towards(switch, interface.switch)

    def _way_ps(self, switch: str, leaf: str) -> int | None:
        if switch == leaf:
            return 0
        key = (switch, leaf)
        if key not in self._from:
            found = []
            for port in self.paths.towards(switch, leaf):
                link = self.topology.link_at(switch, port)
                peer = link.b if link.a.node == switch and link.a.port == port else link.a
                rest = self._way_ps(peer.node, leaf)
                if rest is not None:
                    found.append(rest + self.topology.there_and_back_ps(link) + packet_ps(link))
            self._from[key] = max(found, default=None)
        return self._from[key]
