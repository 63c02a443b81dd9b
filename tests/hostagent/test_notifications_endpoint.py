"""A switch's datagrams by hand, on a real wire: what an endpoint knows of them, and does.

h1 10.77.1.1 (endpoint) ====== h2 10.77.1.2 (endpoint, and a socket of the test's)
                    <---- notifications, as a switch between them would send them
"""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from ipaddress import IPv4Address
from typing import Any

import pytest
from scapy.layers.l2 import Ether

from hostagent.pinned_maps import PinnedMaps
from hostagent.rnic.interface import mac_text
from protocols.notification import Notification, NotificationType, datagram, rate_of
from tests.hostagent.test_fast_cnp_live import (
    CONTROL,
    QUARTER,
    SIZE,
    VALIDITY,
    WAYS,
    h2,
    hosts,
    maps,
    rate,
    told,
)
from tests.hostagent.two_hosts import Joined, TwoHosts, joined, until

pytestmark = pytest.mark.root
__all__ = ["h2", "hosts", "maps"]

CONGESTION, DOWN = NotificationType.CONGESTION, NotificationType.LINK_DOWN


@pytest.fixture
def quiet(hosts: TwoHosts) -> Iterator[None]:
    """h1's kernel says to nobody that nobody listens."""
    before = hosts.h1.unreachables()
    yield
    assert hosts.h1.unreachables() == before


def frame(pair: Joined, kind: NotificationType, **fields: Any) -> bytes:
    values = {"type": kind, "queue": rate_of(QUARTER), "validity": VALIDITY, "switch_id": 3,
              "port": 2, "destination": str(IPv4Address(pair.other.config.ip)),
              "destination_qp": pair.far.qpn}  # fmt: skip
    said = Notification(**{**values, **fields})
    link = Ether(dst=mac_text(pair.one.config.mac), src=mac_text(pair.other.config.mac))
    return bytes(link / datagram(said, to="10.77.1.1", body=b"body"))


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize(("mode", "in_kernel"), WAYS.values(), ids=WAYS)
def test_congestion_slows_and_the_rest_is_known(
    hosts: TwoHosts, maps: PinnedMaps, h2: socket.socket, mode: str, in_kernel: bool
) -> None:
    way = (mode, maps if in_kernel else None)
    with joined(hosts, "near", way, buffer_bytes=SIZE, congestion=CONTROL) as pair:
        before = time.monotonic_ns()
        down, known = frame(pair, DOWN, switch_id=pair.near.qpn & 0xFFFF), pair.one.notifications()
        h2.send(down)
        h2.send(frame(pair, CONGESTION, port=5))
        until(lambda: told(pair) == 1, pair.one)
        assert rate(pair) == QUARTER
        h2.send(down)
        until(lambda: pair.one.notifications()[0].times == 2, pair.one)
        rows = pair.one.notifications()
        assert len(rows) - len(known) in (1, 2)  # that of congestion may be another way's, too
        found = [(row.kind, row.local, row.body_bytes) for row in rows[:2]]
        assert found == [(DOWN, "10.77.1.1", 4), (CONGESTION, "10.77.1.1", 4)]
        assert rows[0].switch_id == pair.near.qpn & 0xFFFF
        assert before < rows[1].at_ns < rows[0].at_ns < time.monotonic_ns()
        assert pair.one.pair_stats(pair.near.qpn).cnps_received == 0
