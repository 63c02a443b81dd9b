"""Looking at a run in progress: queues of switch ports, rates and acknowledged bytes of flows.

Queues are asked for over the switches' side channel, one look after the other: about a millisecond
each, some 100 ns of a fabric that is slowed down 10 000 times. Rates are read from the slots that
eBPF keeps (a copy of shared memory, no call), bytes from what endpoints report by themselves.
"""

from __future__ import annotations

import contextlib
import json
import socket
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from experiments.live_flows import Playing
from experiments.live_model import Series
from hostagent.pinned_maps import PinnedMaps, Slot
from hostagent.rnic.client import EndpointClient
from softswitch.diagnostics import DiagnosticsClient

WATCH_MS = 20
"""How often endpoints report their queue pairs."""

_READ_BYTES = 1 << 20


@dataclass
class Samples:
    """Pairs of a real time (monotonic ns) and a number."""

    at_ns: list[int] = field(default_factory=list)
    values: list[int] = field(default_factory=list)

    def add(self, at_ns: int, value: int) -> None:
        """Keep one more."""
        self.at_ns.append(at_ns)
        self.values.append(value)

    def times_ps(self, zero_ns: int, scale: int) -> Series:
        """Return the times as fabric time since `zero_ns`."""
        return (np.array(self.at_ns, dtype=np.int64) - zero_ns) * 1000 // scale

    def numbers(self, factor: int = 1) -> Series:
        """Return the numbers, times `factor`."""
        return np.array(self.values, dtype=np.int64) * factor


class QueueSampler:
    """Looks at the queues of switch ports, over one connection a switch.

    The switches themselves watch the peak of `queue` there, and when it holds `above_bytes`.
    """

    def __init__(
        self,
        addresses: Mapping[str, str],
        ports: Sequence[tuple[str, int]],
        queue: int,
        above_bytes: int,
    ) -> None:
        """Connect to the switches. Raises DiagnosticsError."""
        self.switches = {name: DiagnosticsClient(address) for name, address in addresses.items()}
        self.depths = {port: Samples() for port in ports}
        self._queue = queue
        for switch, port in ports:
            self.switches[switch].watch_queue(port, queue, above_bytes)

    def look(self) -> None:
        """Look once at each. Raises DiagnosticsError."""
        for (switch, port), samples in self.depths.items():
            before = time.monotonic_ns()
            depth = self.switches[switch].queue(port)["depth_bytes"]
            samples.add((before + time.monotonic_ns()) // 2, int(depth))

    def peak(self, switch: str, port: int) -> tuple[int, int | None]:
        """Return the most bytes, and the monotonic ns at which they were too many (None: never).

        Raises DiagnosticsError.
        """
        before = time.monotonic_ns()
        found = self.switches[switch].queue_peak(port, self._queue)
        now_ns = (before + time.monotonic_ns()) // 2
        above = found["above_ps"]
        at_ns = None if above is None else now_ns - (found["now_ps"] - above) // 1000
        return int(found["bytes"]), at_ns

    def close(self) -> None:
        """End the connections."""
        for client in self.switches.values():
            client.close()


class RateSampler:
    """Reads what congestion control lets each flow send, from the slots in the kernel's memory."""

    def __init__(self, pins: Path, playing: Sequence[Playing]) -> None:
        """Open the maps of `pins`. Raises MapsError."""
        self._maps = PinnedMaps.open(pins)
        numbers = {(slot.local, slot.qpn): slot.number for slot in self._maps.slots()}
        keys = [(str(each.flow.source.address.ip), each.qpn) for each in playing]
        self._slots = [numbers[key] for key in keys]
        self.rates = [Samples() for _ in keys]
        self._last: list[Slot | None] = [None] * len(keys)

    def look(self) -> None:
        """Look once at each; a rate that has not changed is not kept twice."""
        for index, number in enumerate(self._slots):
            at_ns = time.monotonic_ns()
            slot = self._maps.slot(number)
            if slot is None or not slot.algorithms:
                continue
            self.rates[index].add(at_ns, slot.rate_bps)
            self._last[index] = slot

    def last(self, index: int) -> Slot | None:
        """Return a flow's slot as it was at the last look; None if it has no congestion control."""
        return self._last[index]

    def close(self) -> None:
        """Let go of the maps."""
        self._maps.close()


class PairWatcher:
    """Listens to endpoints, each of which reports all its queue pairs every `WATCH_MS`.

    A queue pair is known by its endpoint's socket and its number there.
    """

    def __init__(self, sockets: Iterable[Path]) -> None:
        """Connect to the endpoints. Raises EndpointGone."""
        self._clients = {path: EndpointClient.connect(path) for path in dict.fromkeys(sockets)}
        self._buffers = dict.fromkeys(self._clients, b"")
        self.acked: dict[tuple[Path, int], Samples] = {}
        self.received: dict[tuple[Path, int], Samples] = {}
        self.counts: dict[tuple[Path, int], dict[str, Any]] = {}
        self.planes: dict[tuple[Path, int], Sequence[Mapping[str, Any]]] = {}
        self.endpoints: dict[Path, dict[str, int]] = {}
        for client in self._clients.values():
            client.send("watch", interval_ms=WATCH_MS, all=True)

    def listen(self) -> None:
        """Take what has come, without waiting."""
        for path, client in self._clients.items():
            for line in self._lines(path, client):
                self._take(path, json.loads(line))

    def _lines(self, path: Path, client: EndpointClient) -> Iterator[bytes]:
        data = self._buffers[path]
        with contextlib.suppress(BlockingIOError), _reading(client) as connection:
            while chunk := connection.recv(_READ_BYTES, socket.MSG_DONTWAIT):
                data += chunk
        *lines, self._buffers[path] = data.split(b"\n")
        yield from lines

    def _take(self, path: Path, said: dict[str, Any]) -> None:
        self.endpoints[path] = said.get("endpoint", self.endpoints.get(path, {}))
        for row in said.get("pairs", ()):
            if row["connected"]:
                key = (path, row["qpn"])
                for series, name in ((self.acked, "acked"), (self.received, "received")):
                    series.setdefault(key, Samples()).add(said["at_ns"], row[f"{name}_bytes"])
                self.counts[key] = row
                self.planes[key] = row.get("planes", ())

    def close(self) -> None:
        """End the connections."""
        for client in self._clients.values():
            client.close()


@contextlib.contextmanager
def _reading(client: EndpointClient) -> Iterator[socket.socket]:
    """Borrow a client's connection, to read lines that arrive without a request."""
    connection = socket.socket(fileno=client.fileno())
    try:
        yield connection
    finally:
        connection.detach()
