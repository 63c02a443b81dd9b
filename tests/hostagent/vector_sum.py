"""Programs that add up real payload: workers send 256 int32 each, a third host sends the sum."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hostagent.programs.frames import datagram_of, udp_frame
from hostagent.programs.program import Frame, Host, Program

PORT = 9100
LANES = 256
Vector = NDArray[np.int32]


def numbers(rank: int) -> Vector:
    """Return a worker's numbers: all lanes differ, and some are negative."""
    return (np.arange(LANES, dtype=np.int64) * (7919 + rank) - 1_000_000 * rank).astype(np.int32)


def _vector(frame: Frame) -> tuple[int, Vector]:
    datagram = datagram_of(frame.data)
    assert datagram is not None
    return datagram.source, np.frombuffer(datagram.payload, dtype=">i4").astype(np.int32)


class Worker(Program):
    """Sends its numbers, and keeps the sum."""

    def __init__(self, to: str, rank: int | None = None) -> None:
        self.to, self.rank = to, rank
        self.sum: Vector | None = None

    def started(self, host: Host) -> None:
        host.listen_udp(PORT)
        rank = int(host.name.lstrip("h")) if self.rank is None else self.rank
        payload = numbers(rank).astype(">i4").tobytes()
        host.send(udp_frame(host.interfaces[0], host.addresses[self.to], PORT, PORT, payload))

    def packet(self, host: Host, frame: Frame, now_ns: int) -> None:
        self.sum = _vector(frame)[1]
        host.count("sums")
        host.count("of all lanes", int(self.sum.astype(np.int64).sum() % (1 << 32)))

    def timer(self, host: Host, token: int, now_ns: int) -> None:
        raise AssertionError("no timer was set")


class Adder(Program):
    """Adds up what `workers` hosts sent, and sends the sum to all of them."""

    def __init__(self, workers: int) -> None:
        self.workers = workers
        self.sum = np.zeros(LANES, dtype=np.int32)
        self.sources: list[int] = []

    def started(self, host: Host) -> None:
        host.listen_udp(PORT)

    def packet(self, host: Host, frame: Frame, now_ns: int) -> None:
        source, vector = _vector(frame)
        self.sum += vector
        self.sources.append(source)
        if len(self.sources) == self.workers:
            payload = self.sum.astype(">i4").tobytes()
            for each in sorted(self.sources):
                host.send(udp_frame(host.interfaces[0], each, PORT, PORT, payload))
