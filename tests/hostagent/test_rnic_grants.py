"""A card whose packets ask for more, and that is told of queues: who asks, and what the event says.

See scripted_peer.py for who is who; packets are of 256 bytes.

      card  -- data, a shim with a word -->  switch  -->  receiver
        ^------- the word, with the acknowledgement ---------'
        ^------- a notification of a queue --'
"""

from __future__ import annotations

from typing import Any

import pytest
from scapy.contrib.roce import AETH
from scapy.layers.l2 import Ether

from hostagent.rnic.card_records import Operation, Work
from mechanisms.bolt.parameters import bolt_parameters
from protocols.grants import FIRST, GRANTS_FORMAT, LAST, MORE, QueuedPacket
from protocols.notification import Notification, NotificationType, datagram
from protocols.rocev2 import Opcode, Syndrome, icrc_is_valid
from protocols.telemetry import Telemetry, TelemetryKind, shim_of, with_shim, without
from tests.hostagent.scripted_peer import MTU, PEER_QPN, PSN, QPN, ScriptedPeer
from tests.hostagent.virtual_wire import US

TRIP_NS = 10_000
WINDOW = 8
CONTROL = {
    **bolt_parameters(400 * 10**9).in_fabric(TRIP_NS, MTU).fields(),
    "first_q16": WINDOW << 16,
    "most_q16": 2 * WINDOW << 16,
    "ai_q16": 0,
}
"""Of a line that holds back nothing; a window of eight packets that only grants make larger."""
HERE, PEER = "10.0.1.1", "10.0.1.2"


class Asking(ScriptedPeer):
    """A card with the algorithm, a peer that returns its words, a switch beside it."""

    def __init__(self) -> None:
        super().__init__(congestion_control={"bolt": CONTROL})

    def post(self, packets: int) -> None:
        self.card.post(QPN, Work(1, Operation.SEND, bytes(packets * MTU)), self.now)

    def asked(self, most: int = 1000) -> list[int]:
        """Send what may be sent now; return what each packet says."""
        found: list[int] = []
        while len(found) < most and (packet := self.card.transmit(self.now)) is not None:
            if packet.kind.name == "DATA":
                shim = shim_of(packet.frame)
                assert (shim.kind, shim.words, shim.hops) == (TelemetryKind.COLLECTS, 1, 0)
                assert shim.format == GRANTS_FORMAT and shim.data[1:] == bytes(3)
                assert icrc_is_valid(without(packet.frame))
                found.append(shim.data[0])
            self.now += 10_000
        return found

    def returned(self, psn: int, flags: int) -> None:
        frame = self.frame(Opcode.ACK, psn, AETH(syndrome=int(Syndrome.ACK), msn=1))
        shim = Telemetry(
            kind=TelemetryKind.RETURNED, format=GRANTS_FORMAT, data=bytes([flags, 0, 0, 0])
        )
        assert self.card.receive(with_shim(frame, shim), self.now)

    def queued(self, drains_ns: int, psn: int | None, **fields: Any) -> bool:
        """Tell the card of a queue that a packet met; None: without saying which."""
        said = {
            "type": NotificationType.QUEUE,
            "severity": drains_ns >> 16,
            "queue": drains_ns & 0xFFFF,
            "destination": PEER,
            "destination_qp": PEER_QPN,
            "switch_id": 7,
            "port": 3,
        }
        body = b"" if psn is None else bytes(QueuedPacket(sequence=psn & 0xFFFFFF))
        frame = Ether(dst="02:00:0a:00:01:01") / datagram(
            Notification(**{**said, **fields}), to=HERE, body=body
        )
        return bool(self.card.receive(bytes(frame), self.now))

    @property
    def state(self) -> Any:
        return self.card.lib.rnic_qp_slot(self.card.handle, QPN).bolt

    @property
    def window(self) -> float:
        return float(self.state.window_q16 / 65536)


def test_who_asks_is_neither_in_the_first_nor_in_the_last_window() -> None:
    """Eight packets fit: the first eight and the last eight, and what is between asks."""
    peer = Asking()
    peer.post(20)
    assert peer.asked() == [FIRST] * 8
    said = []
    for n in range(12):
        peer.now += US
        peer.returned(PSN + n, 0)
        said += peer.asked()
    assert said == [MORE] * 4 + [LAST] * 8


def test_a_message_that_fits_into_the_first_window_is_first_and_last() -> None:
    peer = Asking()
    peer.post(3)
    assert peer.asked() == [FIRST | LAST] * 3


def test_what_is_posted_while_others_are_on_the_way_is_not_the_first() -> None:
    """A queue pair that was idle begins anew, one that was not does not."""
    peer = Asking()
    peer.post(2)
    assert peer.asked() == [FIRST | LAST] * 2
    peer.returned(PSN, 0)
    peer.post(30)
    assert peer.asked() == [MORE] * 7
    peer.returned(PSN + 8, 0)
    assert peer.asked() == [MORE] * 8
    for n in range(9, 32):
        peer.returned(PSN + n, 0)
        peer.asked()
    peer.post(30)
    assert set(peer.asked()) == {FIRST}


def test_what_is_sent_again_asks_for_nothing() -> None:
    peer = Asking()
    peer.post(30)
    peer.asked()
    peer.now += 101 * US
    peer.card.advance(peer.now)
    assert peer.asked(1) == [0]


def test_a_grant_is_one_packet_more_once_a_switch_has_not_cleared_it() -> None:
    peer = Asking()
    before = peer.window
    peer.post(100)
    peer.asked()
    peer.returned(PSN, 0)
    assert peer.window == before
    peer.returned(PSN + 1, MORE)
    assert peer.window == before + 1
    peer.returned(PSN + 1, MORE)  # nothing new is acknowledged
    assert peer.window == before + 1


def queued_peer() -> Asking:
    """Return a peer with eight packets on the way, the last of which was sent now."""
    peer = Asking()
    peer.post(100)
    peer.asked()
    peer.now = TRIP_NS * 1000
    peer.returned(PSN, 0)
    peer.asked()
    assert peer.state.rtt_ns == TRIP_NS
    return peer


def test_its_part_of_a_queue_goes_away_in_the_time_since_the_packet_was_sent() -> None:
    peer = queued_peer()
    window, drains = peer.window, 1_000
    peer.now += 2 * US
    since = 2_000 + 10  # ns, since the last packet left
    assert peer.queued(drains, PSN + 8)
    part = window * drains / max(TRIP_NS, since + drains)
    assert peer.window == pytest.approx(window - part, rel=1e-3)
    window = peer.window
    peer.now += US // 2
    assert peer.queued(drains, PSN + 8)
    part = window * drains / TRIP_NS * 500 / (since + 500)
    assert peer.window == pytest.approx(window - part, rel=1e-3)
    assert (peer.stats.cnps_received, peer.stats.notified_received) == (0, 2)


@pytest.mark.parametrize("psn", [None, PSN + 4000, PSN + 50])
def test_a_packet_that_is_not_known_counts_as_a_round_trip_old(psn: int | None) -> None:
    """Without a body, long gone, and not sent yet."""
    peer = queued_peer()
    assert peer.queued(1_000, psn)
    window = peer.window
    peer.now += US
    assert peer.queued(1_000, psn)
    part = window * 1_000 / (TRIP_NS + 1_000) / 10
    assert peer.window == pytest.approx(window - part, rel=1e-3)


def test_twenty_bits_say_how_long_it_drains() -> None:
    peer = queued_peer()
    window = peer.window
    peer.queued(0x54321, PSN + 8)
    part = window * 0x54321 / (0x54321 + 10)
    assert peer.window == pytest.approx(max(window - part, 0.01), rel=0.1)


WRONG: dict[str, dict[str, Any]] = {
    "a queue pair that nobody is joined to": {"destination_qp": 79},
    "another peer": {"destination": "10.0.1.9"},
    "of another type": {"type": NotificationType.LINK_DOWN},
}


@pytest.mark.parametrize("which", WRONG)
def test_what_is_for_nobody_changes_nothing(which: str) -> None:
    peer = queued_peer()
    window = peer.window
    assert not peer.queued(1_000, PSN + 8, **WRONG[which])
    assert (peer.window, peer.stats.notified_received) == (window, 0)


def test_a_report_is_kept_like_others_for_who_looks() -> None:
    peer = queued_peer()
    peer.queued(1_000, PSN + 8)
    (row,) = peer.card.notifications()
    assert (row.kind, row.switch_id, row.port, row.queue) == (NotificationType.QUEUE, 7, 3, 1_000)
    assert row.body_bytes == 4
