"""DPFR as a mechanism of the house: what it has of what `mechanisms.contract` names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache

from scapy.layers.l2 import Ether

from controller.entries import Entry
from controller.parts import View
from mechanisms.contract import Mechanism
from mechanisms.dpfr.counters import DPFR as COUNTER
from mechanisms.dpfr.entries import MODE_TABLE, NAME, entries
from mechanisms.dpfr.fits import LEAVE_OUT, fit_remarks
from mechanisms.dpfr.real_time import real_time_remarks
from mechanisms.dpfr.settings import DPFR, KEY
from mechanisms.dpfr.ways import PlanError, ports_to_switches, ways_of
from mechanisms.dpfr.words import WORDS
from protocols.notification import NEIGHBOURS_MAC, Notification, NotificationType, datagram
from topologies.errors import FieldPath
from topologies.lint.findings import Remark, Severity
from topologies.model import Switch, Topology
from topologies.tickers import Ticker


@dataclass(frozen=True)
class DpfrMechanism(Mechanism):
    """Switches that detect dead links, reroute around them, and notify the others."""

    def sizes(self, topology: Topology) -> Mapping[str, int]:
        """Return room for all destinations in each switch, a power of two; the module has 256."""
        try:
            number = len(ways_of(topology).destinations)
        except PlanError:
            return {}  # which lint says
        room = 1 << (number - 1).bit_length() if number else 0
        return {"DPFR_DESTINATIONS": room} if room > DESTINATIONS else {}

    def entries(self, view: View) -> Iterator[Entry]:
        """Yield ways, destinations and times."""
        return entries(view)

    def tickers(self, topology: Topology, switch: Switch) -> Iterator[Ticker]:
        """Yield what makes heartbeats: a packet for each way in each period."""
        setting, ways = topology.setting(KEY), len(ports_to_switches(topology, switch.name))
        if setting is not None and ways:
            yield Ticker.of(setting.period_ps // ways, heartbeat())

    def port_report(self, topology: Topology) -> bytes:
        """Return the packet that reports a port's carrier: without it a port is dead at once."""
        setting = topology.setting(KEY)
        return port_state() if setting is not None and setting.carrier else b""

    def validity_unit_ps(self, topology: Topology, kind: int) -> int:
        """Return the period of heartbeats, for notifications of links."""
        setting = topology.setting(KEY)
        return setting.period_ps if setting is not None and kind in KINDS else 0

    def remarks(self, topology: Topology, prefix: FieldPath = ()) -> Iterator[Remark]:
        """Yield that a topology is too large, or its times too short for the machine."""
        setting = topology.setting(KEY)
        if setting is None:
            return
        yield from real_time_remarks(topology, setting, prefix)
        try:
            fabric = ways_of(topology)
            longest = fabric.longest()
        except PlanError as error:
            yield Remark(Severity.ERROR, (*prefix, KEY), topology.name, str(error), LEAVE_OUT)
            return
        yield from fit_remarks(topology, prefix, fabric)
        if setting.remote and 1 << setting.validity < setting.refresh + longest:
            message = (
                f"a switch whose link dies may have to notify of {longest} destinations, one "
                f"each period, and again after {setting.refresh}; a notification holds for "
                f"2^{setting.validity} and expires in between"
            )
            right = f"validity: {(setting.refresh + longest - 1).bit_length()}"
            yield Remark(Severity.WARNING, (*prefix, KEY), topology.name, message, right)


KINDS = frozenset((NotificationType.LINK_DOWN, NotificationType.LINK_UP, NotificationType.DEGRADED))
"""The notifications that DPFR makes, whose validity counts in periods of its heartbeats."""

DESTINATIONS = 256
"""As p4src/modules/dpfr.p4 has it: its size unless a topology needs more."""


@cache
def heartbeat() -> bytes:
    """Return what a switch makes heartbeats of: it adds its name and what it receives."""
    return bytes(
        Ether(dst=NEIGHBOURS_MAC, src="00:00:00:00:00:00")
        / datagram(Notification(type=NotificationType.HEARTBEAT))
    )


def port_state() -> bytes:
    """Return what the target writes a port and its state into: the end of the notification."""
    return bytes(
        Ether(dst=NEIGHBOURS_MAC, src="00:00:00:00:00:00")
        / datagram(Notification(type=NotificationType.PORT_STATE))
    )


MECHANISM = DpfrMechanism(
    NAME, "DPFR", settings=(DPFR,), tables=frozenset({MODE_TABLE}), counters=(COUNTER,), words=WORDS
)
