"""Frames that hosts of an exercise send, and what is read from those that come."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

from scapy.layers.inet import ICMP, IP, TCP, UDP
from scapy.layers.l2 import ARP, Ether
from scapy.packet import Packet, Raw

from tests.tutorials.network import Played, Unkept
from topologies import Topology

BROADCAST = "ff:ff:ff:ff:ff:ff"
IPV4, ARP_TYPE = 0x0800, 0x0806
PORT = 4321


class Hosts:
    """The hosts of a topology, and what one sends another."""

    def __init__(self, topology: Topology) -> None:
        self._topology = topology
        self.names = [each.name for each in topology.hosts]

    def ip(self, host: str) -> str:
        """Return a host's address."""
        return str(self._topology.host(host).address.ip)

    def mac(self, host: str) -> str:
        """Return a host's MAC."""
        return self._topology.host(host).mac

    def pairs(self) -> Iterator[tuple[str, str]]:
        """Yield all ordered pairs."""
        yield from ((a, b) for a in self.names for b in self.names if a != b)

    def packet(self, a: str, b: str, over: Packet, *, to: str = "", **ip: Any) -> Packet:
        """Return a packet from a to b (or the address `to`) by way of a's switch."""
        first = self._topology.host(a).interfaces[0].switch
        return (
            Ether(src=self.mac(a), dst=self._topology.switch(first).mac)
            / IP(src=self.ip(a), dst=to or self.ip(b), **ip)
            / over
        )

    def ping(self, a: str, b: str, sequence: int, *, direct: bool = False) -> bytes:
        """Return a ping; `direct`: to b's own MAC."""
        made = self.packet(a, b, ICMP(id=1, seq=sequence) / Raw(b"ping"))
        if direct:
            made[Ether].dst = self.mac(b)
        return bytes(made)

    def udp(
        self, a: str, b: str, text: bytes, *, to: str = "", sport: int = 1234, **ip: Any
    ) -> Packet:
        """Return a datagram to port 4321."""
        return self.packet(a, b, UDP(sport=sport, dport=PORT) / Raw(text), to=to, **ip)

    def tcp(self, a: str, b: str, sport: int, dport: int, flags: str, sequence: int,
            *, to: str = "") -> Packet:  # fmt: skip
        """Return a segment without data."""
        over = TCP(sport=sport, dport=dport, flags=flags, seq=sequence)
        return self.packet(a, b, over, to=to)

    def arp_request(self, a: str, b: str) -> bytes:
        """Return the question for b's MAC."""
        who = ARP(op=1, hwsrc=self.mac(a), psrc=self.ip(a), pdst=self.ip(b))
        return bytes(Ether(src=self.mac(a), dst=BROADCAST) / who)


# ---------------------------------------------------------------- what came


def came(played: Played, host: str, ether_type: int = IPV4) -> list[Packet]:
    """Return the frames of an EtherType that a host got."""
    wanted = struct.pack(">H", ether_type)
    frames = played.records.get(host, ())
    return [Ether(data) for _, data in frames if data[12:14] == wanted]


def expect(holds: bool, what: str) -> None:
    """Raise Unkept, saying `what` has come instead, where it does not hold."""
    if not holds:
        raise Unkept(what)


def pings_answered(played: Played, host: str, address: str) -> set[int]:
    """Return the sequence numbers of the answers that a host got from an address."""
    return {
        each[ICMP].seq
        for each in came(played, host)
        if ICMP in each and each[ICMP].type == 0 and each[IP].src == address
    }


def texts(played: Played, host: str) -> list[bytes]:
    """Return what the datagrams to port 4321 say that a host got."""
    return [
        bytes(each[Raw].load)
        for each in came(played, host)
        if UDP in each and each[UDP].dport == PORT and Raw in each
    ]
