"""A peer that says what a test tells it to, packet by packet, to one card; scapy reads and writes.

    +------+   expect(...)    +---------------+
    | card |----------------->| the test says |
    +------+<-----------------| what comes    |
             send(opcode, ..) +---------------+
The card is 10.0.1.1, its queue pair 5; the peer 10.0.1.2, its queue pair 77. Both start at PSN 100.
"""

from __future__ import annotations

from typing import Any

from scapy.contrib.roce import AETH, BTH, CNPPadding
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Packet as Layer
from scapy.packet import Raw

from hostagent.algorithms import Parameters
from hostagent.rnic.binding import Card
from hostagent.rnic.card_records import Event, EventKind, QueuePairConfig
from protocols.rocev2 import RETH, ROCE_V2_PORT, ImmDt, NakBitmap, Opcode, Syndrome, icrc_is_valid
from tests.hostagent.virtual_wire import US, make_card

QPN, PEER_QPN, PSN = 5, 77, 100
PEER_IP = 0x0A000102
MTU = 256


class ScriptedPeer:
    """The card under test, the time, and what passes between it and the test."""

    def __init__(
        self,
        *,
        card: dict[str, Any] | None = None,
        congestion_control: Parameters | None = None,
        peer_psn: int = PSN,
        **config: Any,
    ) -> None:
        self.card: Card = make_card(1, **(card or {}))
        self.now = 0
        values = {"qpn": QPN, "mtu": MTU, "first_psn": PSN, "timeout_ps": 100 * US, **config}
        self.config = QueuePairConfig(**values)
        self.card.add_queue_pair(self.config, congestion_control)
        self.card.connect(QPN, PEER_IP, peer_qpn=PEER_QPN, peer_psn=peer_psn)

    # --- what the card sends --------------------------------------------------------------------

    def next(self) -> Layer | None:
        """Take its next packet, if it may send one now; its ICRC is right."""
        packet = self.card.transmit(self.now)
        if packet is None:
            return None
        assert icrc_is_valid(packet.frame)
        return Ether(packet.frame)

    def all(self) -> list[Layer]:
        """Take everything that it may send now."""
        found = []
        while (packet := self.next()) is not None:
            found.append(packet)
        return found

    def silent(self) -> bool:
        """Whether it has nothing to say now."""
        return self.next() is None

    def expect(self, *wanted: tuple[Opcode, int]) -> list[Layer]:
        """Check that the card sends exactly these, (opcode, PSN), and then nothing more."""
        found = self.all()
        assert [(Opcode(p[BTH].opcode), p[BTH].psn) for p in found] == list(wanted)
        return found

    def expect_ack(self, psn: int, msn: int, syndrome: int = Syndrome.ACK) -> Layer:
        """Check that the card sends one acknowledgement and nothing else."""
        (packet,) = self.expect((Opcode.ACK, psn))
        assert (packet[AETH].syndrome, packet[AETH].msn) == (syndrome, msn)
        return packet

    # --- what it is sent ------------------------------------------------------------------------

    def frame(
        self,
        opcode: Opcode,
        psn: int,
        *layers: Layer | bytes,
        ce: bool = False,
        ackreq: bool = False,
        qpn: int = QPN,
        src: str = "10.0.1.2",
        **bth: Any,
    ) -> bytes:
        """Return a packet of the peer with a right ICRC; the bytes among its layers are padded."""
        packet: Any = (
            Ether(src="02:01:00:00:00:01", dst="02:00:0a:00:01:01")
            / IP(src=src, dst="10.0.1.1", tos=26 << 2 | (3 if ce else 2), flags="DF")
            / UDP(sport=0xC000, dport=ROCE_V2_PORT, chksum=0)
        )
        payload = next((layer for layer in layers if isinstance(layer, bytes)), b"")
        pad = -len(payload) % 4
        values = {"padcount": pad, "ackreq": int(ackreq), **bth}
        packet /= BTH(opcode=int(opcode), dqpn=qpn, psn=psn & 0xFFFFFF, migreq=1, **values)
        for layer in layers:
            packet /= Raw(layer + bytes(pad)) if isinstance(layer, bytes) else layer
        return bytes(packet)

    def send(self, opcode: Opcode, psn: int, *layers: Layer | bytes, **options: Any) -> bool:
        """Give it a packet; whether it took it for one of its queue pairs."""
        return self.card.receive(self.frame(opcode, psn, *layers, **options), self.now)

    def ack(self, psn: int, syndrome: int = Syndrome.ACK, msn: int = 0, *more: Layer) -> None:
        """Acknowledge, or refuse."""
        assert self.send(Opcode.ACK, psn, AETH(syndrome=int(syndrome), msn=msn), *more)

    def missing(self, psn: int, arrived: list[int]) -> None:
        """Send a NAK of selective repeat: `psn` is missing, `arrived` are there."""
        base = psn + 1
        bits = sum(1 << (127 - (n - base)) for n in arrived)
        self.ack(psn, Syndrome.SEQUENCE_ERROR, 0, NakBitmap(base=base & 0xFFFFFF, bits=bits))

    def write(self, opcode: Opcode, psn: int, address: int, rkey: int, data: bytes) -> bool:
        """Send a WRITE in one packet."""
        layers: list[Layer | bytes] = [RETH(address=address, rkey=rkey, length=len(data))]
        if opcode is Opcode.WRITE_ONLY_IMM:
            layers.append(ImmDt(immediate=0xDEADBEEF))
        return self.send(opcode, psn, *layers, data)

    def read(self, psn: int, address: int, rkey: int, length: int) -> bool:
        """Send a READ request."""
        layer = RETH(address=address, rkey=rkey, length=length)
        return self.send(Opcode.READ_REQUEST, psn, layer)

    def cnp(self) -> None:
        """Tell it of congestion."""
        assert self.send(Opcode.CNP, 0, CNPPadding(), becn=1)

    # --- time and events ------------------------------------------------------------------------

    def pass_time(self, until: int) -> None:
        """Move time, with its time-outs on the way."""
        self.now = until
        self.card.advance(until)

    def happened(self) -> list[tuple[EventKind, int]]:
        """Return (kind, id) of what it has told since the last time."""
        return [(event.kind, event.id) for event in self.events()]

    def events(self) -> list[Event]:
        """Return what it has told since the last time."""
        return self.card.events()

    @property
    def stats(self) -> Any:
        """The queue pair's counters."""
        return self.card.queue_pair_stats(QPN, self.now)
