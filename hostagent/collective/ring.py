"""Collectives over a ring of TCP connections: the opponent of a tree of switches, and its stand-in.

    rank 0 -> rank 1 -> ... -> rank N-1 -> rank 0

Float sums use the integers and exponents that the switches add (`block_exponents`), so that they
are equal to theirs bit for bit, whatever the order in which a ring adds.
"""

from __future__ import annotations

import select
import socket
import struct
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

import numpy as np
from numpy.typing import NDArray

from hostagent.collective import block_exponents
from hostagent.collective.block_exponents import Floats, Integers
from hostagent.collective.communicator import CollectiveError

PORT = 28793
"""TCP; `weft train` uses it in hosts of a fabric, one job a host."""

_HELLO = struct.Struct("!4sII")
_MAGIC = b"wfrg"
_SEGMENT = 1 << 16  # bytes of a broadcast that are on their way between two ranks
_POLL_S = 0.05
_RETRY_S = 0.1

Address = tuple[str, int]
Bytes = NDArray[np.uint8]


class PeerLostError(CollectiveError):
    """A rank has ended, or does not answer: the job can't go on."""


def listen(host: str = "", port: int = 0) -> socket.socket:
    """Return the socket that the rank before this one connects to. Raises CollectiveError."""
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
        listening.listen(4)
    except OSError as error:
        listening.close()
        raise CollectiveError(f"the ring can't listen at {host}:{port}: {error.strerror}") from None
    return listening


class Ring:
    """One rank's place in the ring. Its calls work in place, and return when they are done."""

    def __init__(
        self,
        rank: int,
        addresses: Sequence[Address],
        listening: socket.socket,
        *,
        lanes: int,
        timeout_s: float = 300.0,
    ) -> None:
        """Join the ring. `addresses`: where each rank listens, in order; `listening`: our own.

        `lanes`: values that share an exponent. A call that takes longer than `timeout_s` fails.
        Raises PeerLostError when the neighbours don't appear.
        """
        self.rank, self.size = rank, len(addresses)
        self.lanes, self.timeout_s = lanes, timeout_s
        self._addresses = tuple(addresses)
        self._next: socket.socket | None = None
        self._previous: socket.socket | None = None
        self._interrupted = False
        self.sent_bytes = 0
        try:
            if self.size > 1:
                self._join(listening)
        except BaseException:
            self.close()
            raise
        finally:
            listening.close()

    # --- collectives --------------------------------------------------------------------------

    def sum_floats(self, values: Floats) -> None:
        """Replace `values` by their sums over all ranks, by block exponents."""
        mine = block_exponents.exponents(values, self.lanes)
        agreed = np.maximum.reduce(list(self.allgather(mine)))
        integers = block_exponents.to_integers(values, agreed, self.lanes, self.size)
        self.sum_integers(integers)
        values[:] = block_exponents.to_floats(integers, agreed, self.lanes, self.size)

    def sum_integers(self, values: Integers) -> None:
        """Replace `values` by their sums over all ranks, modulo 2^32."""
        bounds = [len(values) * part // self.size for part in range(self.size + 1)]
        words = values.view(np.uint32)  # its additions wrap

        def part(number: int) -> slice:
            number %= self.size
            return slice(bounds[number], bounds[number + 1])

        for step in range(self.size - 1):
            into = part(self.rank - step - 1)
            came = np.empty(into.stop - into.start, np.uint32)
            self._exchange(words[part(self.rank - step)].view(np.uint8), came.view(np.uint8))
            words[into] += came
        for step in range(self.size - 1):
            out, into = part(self.rank - step + 1), part(self.rank - step)
            self._exchange(words[out].view(np.uint8), words[into].view(np.uint8))

    def broadcast(self, data: Bytes, root: int) -> None:
        """Replace `data` by that of rank `root`."""
        nothing = np.empty(0, np.uint8)
        takes = self.rank != root
        gives = (self.rank + 1) % self.size != root
        for first in range(0, len(data), _SEGMENT):
            segment = data[first : first + _SEGMENT]
            if takes:
                self._exchange(nothing, segment)
            if gives:
                self._exchange(segment, nothing)

    def allgather(self, mine: Bytes) -> Sequence[Bytes]:
        """Return what each rank has given; all give as many bytes."""
        found = [np.empty(len(mine), np.uint8) for _ in range(self.size)]
        found[self.rank][:] = mine
        for step in range(self.size - 1):
            out, into = (self.rank - step) % self.size, (self.rank - step - 1) % self.size
            self._exchange(found[out], found[into])
        return found

    def barrier(self) -> None:
        """Return when all ranks have called it."""
        self.allgather(np.zeros(1, np.uint8))

    @property
    def is_called(self) -> bool:
        """Whether the rank before this one has sent something, or is gone."""
        if self._previous is None:
            return False
        readable, _, _ = select.select([self._previous], [], [], 0)
        return bool(readable)

    def close(self) -> None:
        """End the connections to both neighbours."""
        for end in (self._next, self._previous):
            if end is not None:
                with suppress(OSError):
                    end.shutdown(socket.SHUT_WR)
                end.close()
        self._next = self._previous = None

    def interrupt(self) -> None:
        """Let a call that another thread makes at the moment fail soon."""
        self._interrupted = True

    # --- bytes --------------------------------------------------------------------------------

    def _exchange(self, out: Bytes, into: Bytes) -> None:
        """Send `out` to the next rank and receive `into` from the one before, at the same time."""
        if self.size == 1 or not (len(out) or len(into)):
            return
        if self._next is None or self._previous is None:
            raise CollectiveError(f"rank {self.rank}: the ring is closed")
        left_out, left_in = np.ascontiguousarray(out).data, into.data
        self.sent_bytes += len(left_out)
        deadline = time.monotonic() + self.timeout_s
        while left_out or left_in:
            readable, writable, _ = select.select(
                [self._previous] if left_in else [], [self._next] if left_out else [], [], _POLL_S
            )
            if writable:
                sent = self._try(self.rank + 1, self._next.send, left_out)
                left_out = left_out[sent:]
            if readable:
                came = self._try(self.rank - 1, self._previous.recv_into, left_in)
                if not came:
                    raise PeerLostError(f"{self._who(self.rank - 1)} has ended its connection")
                left_in = left_in[came:]
            if readable or writable:
                deadline = time.monotonic() + self.timeout_s
            elif self._interrupted:
                raise CollectiveError(f"rank {self.rank}: the ring was interrupted")
            elif time.monotonic() > deadline:
                whom = self.rank - 1 if left_in else self.rank + 1
                raise PeerLostError(
                    f"{self._who(whom)} has neither sent nor taken anything "
                    f"for {self.timeout_s:g} s"
                )

    def _try(self, whom: int, action: Callable[[memoryview], int], data: memoryview) -> int:
        try:
            return action(data)
        except OSError as error:
            raise PeerLostError(f"{self._who(whom)} is lost: {error.strerror}") from None

    def _who(self, rank: int) -> str:
        rank %= self.size
        host, port = self._addresses[rank]
        return f"rank {self.rank}: rank {rank} ({host}:{port})"

    def _join(self, listening: socket.socket) -> None:
        """Connect to the next rank, and let the one before connect."""
        deadline = time.monotonic() + self.timeout_s
        self._next = self._connected(deadline)
        self._next.sendall(_HELLO.pack(_MAGIC, self.rank, self.size))
        before = (self.rank - 1) % self.size
        while self._previous is None:
            listening.settimeout(max(0.01, deadline - time.monotonic()))
            try:
                found, _ = listening.accept()
            except OSError:
                raise PeerLostError(
                    f"{self._who(before)} did not join the ring within {self.timeout_s:g} s"
                ) from None
            if _greeting(found, deadline) == (_MAGIC, before, self.size):
                self._previous = found
            else:
                found.close()  # a stranger
        for end in (self._next, self._previous):
            end.settimeout(None)
            end.setblocking(False)
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def _connected(self, deadline: float) -> socket.socket:
        address = self._addresses[(self.rank + 1) % self.size]
        while True:
            left = max(_RETRY_S, deadline - time.monotonic())
            try:
                return socket.create_connection(address, timeout=min(left, 5.0))
            except OSError as error:
                if time.monotonic() > deadline:
                    raise PeerLostError(
                        f"{self._who(self.rank + 1)} takes no connection: {error}"
                    ) from None
                time.sleep(_RETRY_S)


def _greeting(connection: socket.socket, deadline: float) -> tuple[bytes, int, int] | None:
    """Return who connects, None for somebody who does not say so."""
    said = b""
    try:
        while len(said) < _HELLO.size:
            connection.settimeout(max(0.01, min(5.0, deadline - time.monotonic())))
            came = connection.recv(_HELLO.size - len(said))
            if not came:
                return None
            said += came
    except OSError:
        return None
    magic, rank, size = _HELLO.unpack(said)
    return magic, rank, size
