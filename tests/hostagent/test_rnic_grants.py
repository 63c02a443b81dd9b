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
from mechanisms.bolt.parameters import BoltParameters, bolt_parameters
from protocols.grants import FIRST, GRANTS_FORMAT, LAST, MORE, QueuedPacket
from protocols.notification import Notification, NotificationType, datagram
from protocols.rocev2 import Opcode, Syndrome, icrc_is_valid
from protocols.telemetry import Telemetry, TelemetryKind, shim_of, with_shim, without
from tests.hostagent.scripted_peer import MTU, PEER_QPN, PSN, QPN, ScriptedPeer
from tests.hostagent.virtual_wire import US

TRIP_NS = 10_000
LINE = MTU * 8 * 8 * 10**9 // TRIP_NS
"""Of which a round trip holds eight packets."""
HERE, PEER = "10.0.1.1", "10.0.1.2"


class Asking(ScriptedPeer):
    """A card with the algorithm, a peer that returns its words, a switch beside it."""

    def __init__(self, given: BoltParameters | None = None) -> None:
        given = given or bolt_parameters(LINE).in_fabric(TRIP_NS, MTU)
        super().__init__(congestion_control={"bolt": given.fields()})

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
        shim = Telemetry(kind=TelemetryKind.RETURNED, format=GRANTS_FORMAT, data=bytes([flags, 0, 0, 0]))
        assert self.card.receive(with_shim(frame, shim), self.now)

    def queued(self, drains_ns: int, psn: int | None, **fields: Any) -> bool:
        """Tell the card of a queue that a packet met; None: without saying which."""
        said = {"type": NotificationType.QUEUE, "severity": drains_ns >> 16, "queue": drains_ns & 0xFFFF,
                "destination": PEER, "destination_qp": PEER_QPN, "switch_id": 7, "port": 3}  # fmt: skip
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


def test_a_queue_is_drained_by_a_packet_each_time_that_its_part_takes() -> None:
    """The packet was sent 1 us before: 8 packets x 5 us / 10 us are 4, so one each 250 ns."""
    peer = Asking()
    peer.post(100)
    peer.asked()
    peer.now = 5 * US
    for psn in range(5):
        peer.returned(PSN + psn, 0)
    peer.asked()
    start = peer.window
    print(start, peer.state.rtt_ns)
    peer.now += US
    print(peer.queued(5_000, PSN + 12), peer.window)
    peer.now += 200_000
    print(peer.queued(5_000, PSN + 12), peer.window)
    peer.now += 500_000
    print(peer.queued(5_000, PSN + 12), peer.window)
    assert 0
