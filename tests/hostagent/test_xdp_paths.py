"""Paths in the kernel: an event has that of what is acknowledged, as the card's own do.

`wheel` chooses a path for each packet and counts by path what is acknowledged. The two cards and
the program are those of test_xdp_feedback: one card has its slot to itself, for the other one the
XDP program keeps it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import pytest

from hostagent.bpf_test_run import XdpAction, test_run
from hostagent.rnic.binding import Card
from hostagent.rnic.card_records import CardConfig, Interface, QueuePairConfig, Repeat
from protocols.rocev2 import Syndrome
from tests.hostagent.more_algorithms import LISTENER, NO_LIMIT
from tests.hostagent.test_xdp_feedback import FIRST_PSN, MTU, Both, Loaded, algorithms, loaded
from tests.hostagent.test_xdp_roce import FAR_QPN, HERE, PEER, QPN, ack, ip, number

pytestmark = pytest.mark.root
__all__ = ["algorithms", "loaded"]  # fixtures

SECOND_HERE, SECOND_PEER = "10.0.1.1", "10.0.1.2"
KEPT = 2048  # CC_SENT_PATHS


WHEEL = {"wheel": {"line_rate": NO_LIMIT, "min_rate": 1, "of_16": 4}}
Opened = Callable[..., "OfPaths"]


def path_of(packet: int, interfaces: int, udp_ports: int) -> int:
    """Return the wheel's path for the packet of this number."""
    psn = FIRST_PSN + packet
    interface = 0 if psn % 16 < 4 else interfaces - 1
    return psn % udp_ports * interfaces + interface


class OfPaths(Both):
    """Both, with several interfaces or UDP ports."""

    def __init__(
        self, loaded: Loaded, wanted: Any, *, interfaces: int = 1, udp_ports: int = 1
    ) -> None:
        self.loaded = loaded
        self.base = time.monotonic_ns()
        self.ways = [(HERE, PEER), (SECOND_HERE, SECOND_PEER)][:interfaces]
        self.config = QueuePairConfig(
            qpn=QPN, mtu=MTU, first_psn=FIRST_PSN, udp_ports=udp_ports, interfaces=interfaces,
            repeat=Repeat.SELECTIVE, window_packets=8192, timeout_ps=10**15,
        )  # fmt: skip
        self.native, self.kernel = self._card(), self._card()
        self.native.add_queue_pair(self.config, wanted)
        numbers = [(number(here), number(there)) for here, there in self.ways]
        self.slot_number = loaded.maps.add_queue_pair(
            numbers[0][0], QPN, numbers[0][1], FAR_QPN, mtu=MTU, first_psn=FIRST_PSN,
            congestion_control=wanted, more=numbers[1:],
        )  # fmt: skip
        self._map()
        for card in (self.native, self.kernel):
            card.connect_ways(QPN, [there for _, there in numbers], peer_qpn=FAR_QPN, peer_psn=0)

    def _card(self) -> Card:
        config = CardConfig(mac=1, gateway_mac=2, ip=number(HERE), cc_base_ns=self.base)
        more = [Interface(mac=3, gateway_mac=4, ip=number(here)) for here, _ in self.ways[1:]]
        return Card(config, *more)

    def send(self) -> int:
        """Both cards send what they may, by all interfaces; return how much."""
        now, sent, more = self.now(), 0, True
        while more:
            more = False
            for interface in range(len(self.ways)):
                packet = self.native.transmit(now, interface)
                other = self.kernel.transmit(now, interface)
                assert (packet is None) == (other is None)
                if packet is not None and other is not None:
                    assert packet.frame == other.frame
                    sent, more = sent + 1, True
                    for card in (self.native, self.kernel):
                        card.set_busy(now, interface)
        return sent

    def hear(self, packets: int, way: int = 0, syndrome: int = Syndrome.ACK) -> None:
        """Acknowledge, or refuse, the last of the first so many packets by one of the ways."""
        here, there = self.ways[way]
        psn = (FIRST_PSN + packets - 1) & 0xFFFFFF
        frame = bytes(ip(there, here) / ack(psn, syndrome))
        assert test_run(self.loaded.fd, frame).action is XdpAction.PASS
        at = (self.slot().last_at - self.base) * 1000
        for card in (self.native, self.kernel):
            card.receive(frame, at, interface=way)

    def acked(self) -> list[int]:
        """Compare both wheels' counts by path, and return them."""
        ffi = self.kernel.ffi
        own = self.native.lib.rnic_qp_slot(self.native.handle, QPN)
        there, here = (bytes(ffi.buffer(ffi.addressof(s, "wheel"))) for s in (self.slot(), own))
        assert there == here
        return list(self.slot().wheel.acked)

    def close(self) -> None:
        ways = [(number(here), number(there)) for here, there in self.ways]
        self.loaded.maps.remove_queue_pair(ways[0][0], QPN, more=ways[1:])
        for card in (self.native, self.kernel):
            card.close()


@pytest.fixture
def opened(loaded: Loaded) -> Iterator[Opened]:
    made: list[OfPaths] = []

    def make(wanted: Any = WHEEL, **ways: int) -> OfPaths:
        made.append(OfPaths(loaded, wanted, **ways))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.mark.parametrize(("interfaces", "udp_ports"), [(2, 1), (1, 3), (2, 3)])
def test_each_acknowledgement_tells_the_path_of_what_it_acknowledges(
    opened: Opened, interfaces: int, udp_ports: int
) -> None:
    both, random = opened(interfaces=interfaces, udp_ports=udp_ports), Random(3)
    both.post(300)
    assert both.send() == 300
    counted, packets = [0] * 8, 0
    while packets < 300:
        packets = min(300, packets + random.randint(1, 4))
        both.hear(packets, random.randrange(interfaces))
        counted[path_of(packets - 1, interfaces, udp_ports)] += 1
        assert both.acked() == counted
    assert sum(map(bool, counted)) == interfaces * udp_ports


def test_what_is_not_new_has_no_path(opened: Opened) -> None:
    both = opened(interfaces=2)
    both.post(40)
    both.send()
    both.hear(20)
    counted = both.acked()
    assert counted[path_of(19, 2, 1)] == 1
    both.hear(20, 1)
    both.hear(10)
    assert both.acked()[0] == counted[0] + 2
    both.hear(26, 1, Syndrome.SEQUENCE_ERROR)  # acknowledges what is before the one that it names
    counted = both.acked()
    assert sum(counted) == 4
    assert counted[path_of(24, 2, 1)] == (1 if path_of(24, 2, 1) != path_of(19, 2, 1) else 2)


def test_what_is_sent_again_has_its_last_path(opened: Opened) -> None:
    both = opened(interfaces=2)
    both.post(64)
    both.send()
    both.hear(31, 0, Syndrome.SEQUENCE_ERROR)
    again = both.send()
    assert again > 0
    for packets in range(31, 65):
        both.hear(packets)
        both.acked()  # whatever path that was, the kernel knows the same


def test_of_more_packets_than_the_kernel_remembers_the_path_is_0(opened: Opened) -> None:
    both = opened(interfaces=2)
    both.post(KEPT + 40)
    assert both.send() == KEPT + 40
    other = next(n for n in range(40) if path_of(n, 2, 1) == 1)
    both.hear(other + 1)
    assert list(both.slot().wheel.acked) == [1] + 7 * [0]
    late = next(n for n in range(41, 80) if path_of(n, 2, 1) == 1)
    both.hear(late + 1)
    assert list(both.slot().wheel.acked) == [1, 1] + 6 * [0]


def test_nothing_is_told_to_who_does_not_ask(opened: Opened) -> None:
    both = opened({"listener": LISTENER}, interfaces=2)
    both.post(40)
    both.send()
    sent = both.kernel.ffi.from_buffer("struct cc_sent[]", both._sent)[both.slot_number]
    assert any(sent.packets)
    assert not any(sent.paths)
