"""How many pins a topology's switches have room for (IGLB_PINS of p4src/modules/iglb.p4)."""

from __future__ import annotations

from mechanisms.iglb.settings import setting_of
from topologies.model import Topology

PINS = 16384
"""As p4src/modules/iglb.p4 has it: its size unless a topology needs more."""


def pins_room(topology: Topology) -> int:
    """Return how many pins a switch can hold: two versions of the flows of its hosts.

    A switch above leaves has as many as a leaf where flows are spread: each of a pod's leaves sends
    it its part.
    """
    setting = setting_of(topology)
    hosts = max((len(list(topology.interfaces_of(s.name))) for s in topology.switches), default=0)
    flows = 0 if setting is None else 2 * hosts * setting.flows
    return max(PINS, 1 << (flows - 1).bit_length() if flows else 0)
