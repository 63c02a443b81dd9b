"""What hosts do in a check of an exercise: send frames at given times, write down what comes.

It runs in the simulator and between namespaces. There is no kernel below a simulated host, so there
it answers ARP and pings as well.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

from hostagent.programs.program import Frame, Host, Program

IPV4, ARP = 0x0800, 0x0806
ETHERNET = 14
BROADCAST = b"\xff" * 6
_ICMP, _ECHO_REQUEST = 1, 8
_ARP_REQUEST, _ARP_REPLY = 1, 2


class Talk(Program):
    """Sends `sends`, records frames of the EtherTypes `listens` in the file `record`.

    A send is (at, frame in hex, times, every), times in nanoseconds from the start. A line of the
    record is a time and a frame's first `keep` bytes in hex.
    """

    def __init__(
        self,
        sends: Sequence[tuple[int, str, int, int]] = (),
        listens: Sequence[int] = (),
        record: str = "",
        keep: int = 256,
        answers: bool = False,
    ) -> None:
        self._sends = [
            (at, bytes.fromhex(frame), times, every) for at, frame, times, every in sends
        ]
        self._sent = [0] * len(sends)
        self._listens, self._path, self._keep = listens, record, keep
        self._answers = answers
        self._record: TextIO | None = None

    def started(self, host: Host) -> None:
        """Listen, and set a timer for each send."""
        if self._path:
            self._record = Path(self._path).open("w", buffering=1)  # noqa: SIM115 - for the whole run
        for number in self._listens:
            host.listen_ethertype(number)
        for token, (at_ns, _, _, _) in enumerate(self._sends):
            host.set_timer(token, at_ns)

    def timer(self, host: Host, token: int, now_ns: int) -> None:
        """Send a frame, and see to the next of its kind."""
        at_ns, frame, times, every_ns = self._sends[token]
        if not host.send(frame):
            host.count("not sent")
        self._sent[token] += 1
        if self._sent[token] < times:
            host.set_timer(token, at_ns + self._sent[token] * every_ns)

    def packet(self, host: Host, frame: Frame, now_ns: int) -> None:
        """Write a frame down, and answer it where nobody else does."""
        if self._record is not None:
            self._record.write(f"{now_ns} {frame.data[: self._keep].hex()}\n")
        own = host.interfaces[0].mac.to_bytes(6, "big")
        if self._answers and frame.data[:6] in (own, BROADCAST):  # a kernel drops what is not its
            answer = arp_reply(host, frame.data) or echo_reply(host, frame.data)
            if answer:
                host.send(answer)

    def stopped(self, host: Host) -> None:
        """Close the record."""
        if self._record is not None:
            self._record.close()


def arp_reply(host: Host, frame: bytes) -> bytes:
    """Return the answer to a question for the host's own address; empty for anything else."""
    own = host.interfaces[0]
    if len(frame) < 42 or frame[12:14] != ARP.to_bytes(2, "big"):
        return b""
    operation, sender_mac, sender_ip, wanted = struct.unpack(">H6s4s6x4s", frame[20:42])
    if operation != _ARP_REQUEST or int.from_bytes(wanted, "big") != own.ip:
        return b""
    mac = own.mac.to_bytes(6, "big")
    head = sender_mac + mac + frame[12:20]
    return bytes(head + struct.pack(">H", _ARP_REPLY) + mac + wanted + sender_mac + sender_ip)


def echo_reply(host: Host, frame: bytes) -> bytes:
    """Return the answer to a ping of the host; empty for anything else."""
    own = host.interfaces[0]
    if len(frame) < ETHERNET + 28 or frame[12:14] != IPV4.to_bytes(2, "big"):
        return b""
    length = (frame[ETHERNET] & 15) * 4
    ip, icmp = bytearray(frame[ETHERNET : ETHERNET + length]), frame[ETHERNET + length :]
    icmp = icmp[: int.from_bytes(ip[2:4], "big") - length]
    if ip[9] != _ICMP or not icmp or icmp[0] != _ECHO_REQUEST:
        return b""
    if int.from_bytes(ip[16:20], "big") != own.ip:
        return b""
    ip[12:16], ip[16:20] = ip[16:20], ip[12:16]
    ip[8], ip[10:12] = 64, b"\0\0"
    ip[10:12] = checksum(ip)
    answer = bytearray(icmp)
    answer[0], answer[2:4] = 0, b"\0\0"
    answer[2:4] = checksum(answer)
    return frame[6:12] + own.mac.to_bytes(6, "big") + frame[12:14] + bytes(ip) + bytes(answer)


def checksum(data: bytes | bytearray) -> bytes:
    """Return the Internet checksum."""
    padded = bytes(data) + b"\0" * (len(data) % 2)
    total: int = sum(struct.unpack(f">{len(padded) // 2}H", padded))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return (~total & 0xFFFF).to_bytes(2, "big")
