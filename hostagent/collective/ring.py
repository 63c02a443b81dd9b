"""Collectives over a ring of hosts: the opponent of a tree of switches, and its stand-in.

    rank 0 -> rank 1 -> ... -> rank N-1 -> rank 0          over TCP, or over RDMA

Float sums use the integers and exponents that the switches add (`block_exponents`), so that they
are equal to theirs bit for bit, whatever the order in which a ring adds.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence
from typing import Any

import numpy as np

from hostagent.collective import block_exponents
from hostagent.collective.block_exponents import Floats, Integers
from hostagent.collective.neighbours import Address, Bytes, Neighbours
from hostagent.collective.rdma import RdmaNeighbours, RdmaSettings

_SEGMENT = 1 << 16  # bytes of a broadcast that are on their way between two ranks


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
        rdma: RdmaSettings | None = None,
    ) -> None:
        """Join the ring. `addresses`: where each rank listens, in order; `listening`: our own.

        `lanes`: values that share an exponent. A call that takes longer than `timeout_s` fails.
        `rdma`: the card that carries the bytes, in the place of TCP. Raises PeerLostError when the
        neighbours don't appear, CollectiveError (no such card).
        """
        self.rank, self.size, self.lanes = rank, len(addresses), lanes
        self._neighbours = (
            Neighbours(rank, addresses, listening, timeout_s)
            if rdma is None
            else RdmaNeighbours(rank, addresses, listening, timeout_s, rdma)
        )
        self._exchange = self._neighbours.exchange

    @property
    def sent_bytes(self) -> int:
        """Bytes that this rank has sent."""
        return self._neighbours.sent_bytes

    @property
    def is_called(self) -> bool:
        """Whether the rank before this one has sent something, or is gone."""
        return self._neighbours.is_called

    def counters(self) -> dict[str, int]:
        """Return what the card counted of this ring's queue pairs; empty over TCP."""
        return self._neighbours.counters()

    def planes(self) -> list[dict[str, Any]]:
        """Return what became of each plane to the next rank (`RdmaNeighbours.planes`), if any."""
        return self._neighbours.planes()

    def close(self) -> None:
        """End the connections to both neighbours."""
        self._neighbours.close()

    def interrupt(self) -> None:
        """Let a call that another thread makes at the moment fail soon."""
        self._neighbours.interrupt()

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
