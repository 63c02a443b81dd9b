"""Programs that tests run in virtual time and between namespaces: one message at a time, answered.

h1 --- (switches, which may lose frames) --- h2
Sender: message n, until n is acknowledged; again after `timeout_ns`    Taker: keeps n once
"""

from __future__ import annotations

from hostagent.programs.frames import Datagram, datagram_of, udp_frame
from hostagent.programs.program import Frame, Host, Program

PORT = 9000
_AGAIN = 0


def _datagram(frame: Frame) -> Datagram:
    datagram = datagram_of(frame.data)
    assert datagram is not None
    return datagram


class Sender(Program):
    """Sends `messages` messages of `size` bytes to a host, the next one when one is answered."""

    def __init__(self, to: str, messages: int, size: int = 100, timeout_ns: int = 100_000) -> None:
        self.to, self.messages, self.size, self.timeout_ns = to, messages, size, timeout_ns
        self.number = 0
        self.answered_ns: list[int] = []

    def started(self, host: Host) -> None:
        host.listen_udp(PORT)
        self._send(host)

    def _send(self, host: Host) -> None:
        payload = self.number.to_bytes(4, "big").ljust(self.size, b"\x5a")
        to = host.addresses[self.to]
        host.send(udp_frame(host.interfaces[0], to, PORT, PORT, payload))
        host.set_timer(_AGAIN, host.now_ns + self.timeout_ns)

    def packet(self, host: Host, frame: Frame, now_ns: int) -> None:
        answered = int.from_bytes(_datagram(frame).payload[:4], "big")
        if answered != self.number:
            host.count("old answers")
            return
        self.answered_ns.append(now_ns)
        self.number += 1
        host.count("answered")
        if self.number < self.messages:
            self._send(host)
        else:
            host.cancel_timer(_AGAIN)

    def timer(self, host: Host, token: int, now_ns: int) -> None:
        host.count("repeated")
        self._send(host)


class Taker(Program):
    """Takes each message once, and answers all."""

    def __init__(self) -> None:
        self.taken: list[int] = []

    def started(self, host: Host) -> None:
        host.listen_udp(PORT)

    def packet(self, host: Host, frame: Frame, now_ns: int) -> None:
        datagram = _datagram(frame)
        number = int.from_bytes(datagram.payload[:4], "big")
        if number == len(self.taken):
            self.taken.append(number)
            host.count("taken")
        else:
            host.count("seen before")
        interface = host.interfaces[frame.interface]
        answer = udp_frame(interface, datagram.source, PORT, PORT, datagram.payload[:4])
        host.send(answer, frame.interface)
