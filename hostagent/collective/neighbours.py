"""A rank's connections to the next one of a ring and from the one before, by TCP."""

from __future__ import annotations

import select
import socket
import struct
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hostagent.collective.handle import CollectiveError

PORT = 28793
"""TCP; `weft train` uses it in hosts of a fabric, one job a host."""

POLL_S = 0.05

_HELLO = struct.Struct("!4sII")
_MAGIC = b"wfrg"
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


class Neighbours:
    """Both connections of a rank. `exchange` is what a ring is made of."""

    def __init__(
        self,
        rank: int,
        addresses: Sequence[Address],
        listening: socket.socket,
        timeout_s: float,
    ) -> None:
        """Connect to the next rank, and let the one before connect; takes `listening` over.

        `addresses`: where each rank listens, in order. Raises PeerLostError when the neighbours
        don't appear within `timeout_s`.
        """
        self.rank, self.size, self.timeout_s = rank, len(addresses), timeout_s
        self.sent_bytes = 0
        self._addresses = tuple(addresses)
        self._next: socket.socket | None = None
        self._previous: socket.socket | None = None
        self._interrupted = False
        try:
            if self.size > 1:
                self._join(listening)
        except BaseException:
            Neighbours.close(self)
            raise
        finally:
            listening.close()

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

    def counters(self) -> dict[str, int]:
        """Return what was counted beside `sent_bytes`: nothing here."""
        return {}

    def planes(self) -> list[dict[str, Any]]:
        """Return what became of each plane to the next rank: there are none here."""
        return []

    # --- bytes --------------------------------------------------------------------------------

    def exchange(self, out: Bytes, into: Bytes) -> None:
        """Send `out` to the next rank and receive `into` from the one before, at the same time.

        Raises PeerLostError; CollectiveError (closed, interrupted).
        """
        if self.size == 1 or not (len(out) or len(into)):
            return
        following, previous = self._ends()
        left_out, left_in = np.ascontiguousarray(out).data, into.data
        self.sent_bytes += len(left_out)
        deadline = time.monotonic() + self.timeout_s
        while left_out or left_in:
            readable, writable, _ = select.select(
                [previous] if left_in else [], [following] if left_out else [], [], POLL_S
            )
            if writable:
                sent = self._try(self.rank + 1, following.send, left_out)
                left_out = left_out[sent:]
            if readable:
                came = self._try(self.rank - 1, previous.recv_into, left_in)
                if not came:
                    raise self._ended(self.rank - 1)
                left_in = left_in[came:]
            if readable or writable:
                deadline = time.monotonic() + self.timeout_s
            else:
                self._check(deadline, self.rank - 1 if left_in else self.rank + 1)

    def _ends(self) -> tuple[socket.socket, socket.socket]:
        if self._next is None or self._previous is None:
            raise CollectiveError(f"rank {self.rank}: the ring is closed")
        return self._next, self._previous

    def _check(self, deadline: float, whom: int) -> None:
        """Raise if nothing has moved for so long that waiting is over."""
        if self._interrupted:
            raise CollectiveError(f"rank {self.rank}: the ring was interrupted")
        if time.monotonic() > deadline:
            raise PeerLostError(
                f"{self._who(whom)} has neither sent nor taken anything for {self.timeout_s:g} s"
            )

    def _ended(self, whom: int) -> PeerLostError:
        return PeerLostError(f"{self._who(whom)} has ended its connection")

    def _try(self, whom: int, action: Callable[[memoryview], int], data: memoryview) -> int:
        try:
            return action(data)
        except OSError as error:
            raise PeerLostError(f"{self._who(whom)} is lost: {error.strerror}") from None

    def _who(self, rank: int) -> str:
        rank %= self.size
        host, port = self._addresses[rank]
        return f"rank {self.rank}: rank {rank} ({host}:{port})"

    # --- joining ------------------------------------------------------------------------------

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
    """Return the connecting rank, None for a peer that does not name one."""
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
