"""What switches hold to grant and to notify (p4src/modules/bolt.p4)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from controller.entries import ActionCall, CloneSession, Entry, Exact, TableEntry, call, match
from controller.parts import View
from mechanisms.bolt.settings import KEY, Bolt
from topologies.model import CNP_DSCP, Link

NAME = KEY
QUEUE_TABLE = "bolt_queue"

SESSION = 522
"""The clone session of BOLT_SESSION (p4src/modules/bolt/types.p4)."""

RECIRCULATION_PORT = 510
"""As p4src/include/constants.p4 says it: what leaves here comes in again."""

DEBT_BYTES = 1 << 26
"""How far supply may go below nothing."""

OVERHEAD_BYTES = 14 + 24
"""Of a packet of the MTU on the line: Ethernet's header; FCS, preamble, gap."""

ONE_Q32 = 1 << 32
PS_PER_S = 10**12
DRAINS_MOST_NS = (1 << 20) - 1
"""What a notification holds."""


def entries(view: View) -> Iterator[Entry]:
    """Yield the line of each port, for all classes, and the numbers of those whose packets ask."""
    found: Mapping[int, Bolt] = view.policy.setting(KEY)
    if not found or QUEUE_TABLE not in view.tables:
        return
    highest = view.facts.priorities - 1
    chosen = min(view.policy.class_of_dscp.get(CNP_DSCP, highest), highest)
    yield CloneSession(
        SESSION, ((RECIRCULATION_PORT, 1),), chosen if view.facts.clone_classes else 0
    )
    for port in view.topology.ports_of(view.switch.name):
        for queue in range(view.facts.priorities):
            key = match(port=Exact(port.number), **{"class": Exact(queue)})
            setting = found.get(queue)
            yield TableEntry(QUEUE_TABLE, key, numbers(view, port.link, setting))


def numbers(view: View, link: Link, setting: Bolt | None) -> ActionCall:
    """Return what a port's class does, in the target's ticks and the fabric's ns.

    Factors are rounded down, so that products of what the module caps fit into 64 bits.
    """
    facts = view.facts
    packet = link.mtu_bytes + OVERHEAD_BYTES
    unit = 8 * PS_PER_S * facts.time_scale
    drain = max(link.rate_bps * facts.tick_ps * ONE_Q32 // unit, 1)
    longest = min((DEBT_BYTES + packet) * ONE_Q32 // drain + 1, (1 << 48) - 1)
    line = {"drain": drain, "longest": longest, "mtu": packet}
    if setting is None:
        return call("supply_port", **line)
    return call(
        "grant_queue",
        **line,
        depth_unit=facts.depth_cell_bytes or view.policy.packet_bytes,
        long_queue=setting.threshold_bytes or link.mtu_bytes,
        drain_ns=8 * 10**9 * ONE_Q32 // link.rate_bps,
        most=min(DRAINS_MOST_NS * link.rate_bps // (8 * 10**9) + 1, (1 << 32) - 1),
    )
