"""Flows, and messages that wait for each other, put together piece by piece.

Messages are numbered in the order in which they are added; edges lead from a message to one that
waits for it. Everything comes and goes as numpy arrays: a ring of 1024 ranks is two million
messages.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from simulator.paths import IP_OVERHEAD, Paths, PathTable, mtu_payload
from topologies.model import Interface
from topologies.randomness import mix
from topologies.workload_model import FLOW, MESSAGE, MessageArrays, Records
from topologies.workload_schema import ROCE_DSCP

Numbers = npt.NDArray[np.int64]
FIRST_UDP_PORT = 0xC000  # RoCEv2's source ports lie in 49152..65535


class FlowTable:
    """The flows of a run: one for each (source, destination, channel) that is asked for."""

    def __init__(self, paths: Paths) -> None:
        self.paths = paths
        self.topology = paths.topology
        self._host_numbers = {host.name: i for i, host in enumerate(self.topology.hosts)}
        self._queues = {
            dscp: 0 if of_class.queue is None else of_class.queue
            for of_class in self.topology.classes
            for dscp in of_class.dscps
        }
        self._pairs: list[tuple[Interface, Interface]] = []
        self._rows: list[tuple[int, ...]] = []
        self._numbers: dict[tuple[object, ...], int] = {}

    def __len__(self) -> int:
        return len(self._rows)

    def flow(
        self,
        source: Interface,
        target: Interface,
        *,
        channel: int | str = 0,
        dscp: int = ROCE_DSCP,
        queue: int | None = None,
        payload: int | None = None,
        udp_port: int | None = None,
        rate_bps: int | None = None,
    ) -> int:
        """Return the number of the flow of this pair, channel and settings, made once."""
        key = (source.end, target.end, channel, dscp, queue, payload, udp_port, rate_bps)
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self._rows)
            self._pairs.append((source, target))
            port = udp_port or self._port(source, target, channel)
            self._rows.append(
                (
                    self._host_numbers[source.host],
                    source.number,
                    self._host_numbers[target.host],
                    target.number,
                    port,
                    dscp,
                    self._queues.get(dscp, 0) if queue is None else queue,
                    self._payload(source, target, payload),
                    rate_bps or 0,
                )
            )
        return number

    def records(self) -> Records:
        """Return all flows as sim_flow_config."""
        return np.array(self._rows, dtype=FLOW) if self._rows else np.empty(0, dtype=FLOW)

    def path_table(self) -> PathTable:
        """Return the paths of all flows, by number."""
        return self.paths.between(self._pairs)

    def payload_of(self, flow: int) -> int:
        """Return how many bytes a packet of a flow carries."""
        return self._rows[flow][7]

    def _port(self, source: Interface, target: Interface, channel: int | str) -> int:
        """Return the UDP source port: spread over RoCE's range by the pair and the channel."""
        word = mix(int(source.address.ip) << 32 | int(target.address.ip))
        for byte in str(channel).encode():
            word = mix(word ^ byte)
        return FIRST_UDP_PORT + (word >> 50)

    def _payload(self, source: Interface, target: Interface, given: int | None) -> int:
        mtu = min(self.topology.link_at(end.host, end.number).mtu_bytes for end in (source, target))
        return mtu_payload(mtu) if given is None else min(given, mtu - IP_OVERHEAD)


class MessageTable:
    """Messages and edges between them."""

    def __init__(self) -> None:
        self._messages: list[Records] = []
        self._from: list[Numbers] = []
        self._to: list[Numbers] = []
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(
        self,
        flow: Numbers | int,
        size: Numbers | int,
        count: int,
        *,
        start_ps: Numbers | int = 0,
        gap_ps: Numbers | int = 0,
    ) -> Numbers:
        """Add `count` messages and return their numbers; each value is one for all, or of each."""
        rows = np.empty(count, dtype=MESSAGE)
        rows["flow"], rows["bytes"], rows["waits"] = flow, size, 0
        rows["start_ps"], rows["gap_ps"] = start_ps, gap_ps
        self._messages.append(rows)
        self._count += count
        return np.arange(self._count - count, self._count, dtype=np.int64)

    def wait(self, later: Numbers, earlier: Numbers) -> None:
        """Let each message of `later` wait for the one at the same place of `earlier`."""
        if later.shape != earlier.shape:
            raise ValueError(f"{later.shape} messages can't wait for {earlier.shape}")
        self._from.append(earlier.ravel())
        self._to.append(later.ravel())

    def arrays(self) -> MessageArrays:
        """Return all of it as sim_add_messages takes it."""
        if not self._messages:
            empty = np.empty(0, dtype=MESSAGE)
            return MessageArrays(empty, np.zeros(1, np.uint64), np.empty(0, np.uint32))
        messages = np.concatenate(self._messages)
        none = np.empty(0, dtype=np.int64)
        earlier = np.concatenate([*self._from, none])
        later = np.concatenate([*self._to, none])
        messages["waits"] = np.bincount(later, minlength=self._count)
        first = np.zeros(self._count + 1, dtype=np.uint64)
        np.cumsum(np.bincount(earlier, minlength=self._count), out=first[1:])
        order = np.argsort(earlier, kind="stable")
        return MessageArrays(messages, first, later[order].astype(np.uint32))
