"""Flows, and messages that wait for each other, put together piece by piece.

Flows and messages are numbered in the order in which they are asked for; edges lead from a message
to one that waits for it. Interfaces count over all hosts in the topology's order. Everything comes
and goes as numpy arrays: a ring of 1024 ranks is two million messages.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from topologies.model import Interface, Topology
from workloads.model import FLOW, MESSAGE, STRIPES, MessageArrays, Records
from workloads.paths import Paths, PathTable, mtu_payload
from workloads.randomness import Random, mix, mix_words
from workloads.schema import ROCE_DSCP
from workloads.several import span
from workloads.transport import Transport, transport_for
from workloads.transport_schema import TransportFields

Numbers = npt.NDArray[np.int64]
FIRST_UDP_PORT, UDP_PORTS = 0xC000, 1 << 14  # RoCEv2's source ports lie in 49152..65535
MAX_CHANNELS = 64  # of a pair
PLAIN_SEED = 1  # of a run file without `seed`: its ports follow from the pair alone
OPERATIONS = {"send": 0, "write": 2, "read": 4}  # enum rnic_operation


@dataclass(frozen=True)
class FlowKind:
    """What a number of flows have in common; flows of different names never share a queue pair.

    `queue` None: that of the DSCP's class. `payload` None: what the MTU allows. `udp_port` None: by
    pair, channel, name and the run's seed. `rate_bps` 0: the interface's. `open_loop`: without the
    run's transport; `operation` None: the transport's.
    """

    name: str
    dscp: int = ROCE_DSCP
    queue: int | None = None
    payload: int | None = None
    udp_port: int | None = None
    rate_bps: int = 0
    open_loop: bool = False
    operation: str | None = None


class FlowTable:
    """The flows of a run: one for each (kind, source, destination, channel) that is asked for."""

    def __init__(
        self,
        topology: Topology,
        transport: TransportFields | None = None,
        *,
        seed: int = PLAIN_SEED,
    ) -> None:
        self.topology = topology
        self.transport = transport
        self._word = 0 if seed == PLAIN_SEED else Random(seed, "udp ports").word()
        self._transports: dict[tuple[int, str, bool, int], int] = {}
        self.interfaces = tuple(topology.interfaces())
        self.numbers = {interface.end: i for i, interface in enumerate(self.interfaces)}
        hosts = {host.name: i for i, host in enumerate(topology.hosts)}
        self._host = np.array([hosts[i.host] for i in self.interfaces], dtype=np.int64)
        self._port = np.array([i.number for i in self.interfaces], dtype=np.int64)
        self._address = np.array([int(i.address.ip) for i in self.interfaces], dtype=np.uint64)
        links = [topology.link_at(i.host, i.number) for i in self.interfaces]
        self._mtu = np.array([link.mtu_bytes for link in links], dtype=np.int64)
        self._rate = np.array([link.rate_bps for link in links], dtype=np.int64)
        # Of a reliable flow: how many lines it has at that end, and their MTU and rate together.
        self._lines = np.ones(len(self.interfaces), dtype=np.int64)
        self._lines_mtu, self._lines_rate = self._mtu, self._rate
        if span(transport) and len(self.interfaces):
            self._lines = np.bincount(self._host)[self._host]
            self._lines_rate = _by_host(np.add, self._host, self._rate)
            self._lines_mtu = _by_host(np.minimum, self._host, self._mtu)
        stock = topology.stock_nics
        self._stock = np.array([i.host in stock for i in self.interfaces], dtype=np.bool_)
        self._queues = {
            dscp: 0 if of_class.queue is None else of_class.queue
            for of_class in topology.classes
            for dscp in of_class.dscps
        }
        self._known: dict[FlowKind, dict[int, int]] = {}
        self._blocks: list[Records] = []
        self._source: list[Numbers] = []
        self._target: list[Numbers] = []
        self._striped: list[Numbers] = []
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def places(self, interfaces: Iterable[Interface]) -> Numbers:
        """Return the numbers of interfaces."""
        return np.array([self.numbers[interface.end] for interface in interfaces], dtype=np.int64)

    def flows(
        self, kind: FlowKind, source: Numbers, target: Numbers, channel: Numbers | int = 0
    ) -> Numbers:
        """Return the flow of each pair of interfaces and channel; new ones are made.

        Where messages are striped as queue pairs drain it is the first of so many.
        """
        keys = (source * len(self.interfaces) + target) * MAX_CHANNELS + channel
        distinct, first, place = np.unique(keys, return_index=True, return_inverse=True)
        known = self._known.setdefault(kind, {})
        numbers = np.array([known.get(key, -1) for key in distinct.tolist()], dtype=np.int64)
        new = np.flatnonzero(numbers < 0)
        new = new[np.argsort(first[new], kind="stable")]  # in the order in which they come
        if len(new):
            at = first[new]
            channels = np.broadcast_to(channel, keys.shape)[at]
            numbers[new] = self._make_striped(kind, source[at], target[at], channels)
            known.update(zip(distinct[new].tolist(), numbers[new].tolist(), strict=True))
        return numbers[place]

    def each(self, kind: FlowKind, source: Numbers, target: Numbers) -> Numbers:
        """Return a new flow for each pair, also for one that comes again."""
        if not len(source):
            return np.arange(0, dtype=np.int64)
        return self._make_striped(kind, source, target, np.arange(len(source)))

    def payload_of(self, flow: int) -> int:
        """Return how many bytes a packet of a flow carries."""
        for block in self._blocks:
            if flow < len(block):
                return int(block["payload"][flow])
            flow -= len(block)
        raise IndexError(flow)

    def records(self) -> Records:
        """Return all flows as sim_flow_config."""
        return np.concatenate([np.empty(0, dtype=FLOW), *self._blocks])

    def path_table(self) -> PathTable:
        """Return the paths of all flows, by number."""
        none = np.empty(0, dtype=np.int64)
        source = np.concatenate([none, *self._source])
        target = np.concatenate([none, *self._target])
        return Paths(self.topology).between(self.interfaces, source, target)

    def stripes(self) -> Records:
        """Return which flows carry messages together, as sim_stripes."""
        first = np.concatenate([np.empty(0, dtype=np.int64), *self._striped])
        rows = np.zeros(len(first), dtype=STRIPES)
        if self.transport is not None:
            rows["flow"], rows["queue_pairs"] = first, self.transport.shared_queue_pairs
            rows["piece_bytes"] = self.transport.piece
            rows["outstanding"] = self.transport.outstanding
        return rows

    def _make_striped(
        self, kind: FlowKind, source: Numbers, target: Numbers, channel: Numbers
    ) -> Numbers:
        """Make flows, each of as many queue pairs as share a message; return the first ones."""
        first = self._count
        n = 1 if self.transport is None or kind.open_loop else self.transport.shared_queue_pairs
        if n > 1:
            channel = (channel[:, None] * n + np.arange(n)).ravel()
            source, target = np.repeat(source, n), np.repeat(target, n)
        self._make(kind, source, target, channel)
        made = np.arange(first, self._count, n, dtype=np.int64)
        if n > 1:
            self._striped.append(made)
        return made

    def _make(self, kind: FlowKind, source: Numbers, target: Numbers, channel: Numbers) -> None:
        rows = np.zeros(len(source), dtype=FLOW)
        rows["src"], rows["src_port"] = self._host[source], self._port[source]
        rows["dst"], rows["dst_port"] = self._host[target], self._port[target]
        rows["udp_port"] = kind.udp_port or self._udp_ports(kind, source, target, channel)
        rows["dscp"] = kind.dscp
        rows["queue"] = self._queues.get(kind.dscp, 0) if kind.queue is None else kind.queue
        reliable = self.transport is not None and not kind.open_loop
        of_end = self._lines_mtu if reliable else self._mtu
        mtu = np.minimum(of_end[source], of_end[target])
        fixed = kind.payload or (self.transport.mtu if reliable and self.transport else None)
        rows["payload"] = fixed or np.array([mtu_payload(int(one)) for one in mtu])
        rows["rate_bps"] = kind.rate_bps
        if reliable:
            self._give_transport(kind, rows, source, target)
        self._blocks.append(rows)
        self._source.append(source)
        self._target.append(target)
        self._count += len(rows)

    def _give_transport(
        self, kind: FlowKind, rows: Records, source: Numbers, target: Numbers
    ) -> None:
        """Assign a transport to each line rate and kind of card that sends data."""
        assert self.transport is not None
        operation = kind.operation or self.transport.operation
        rows["operation"] = OPERATIONS[operation]
        sender = target if operation == "read" else source
        rates, lines = self._lines_rate[source], self._lines[source]
        rows["interfaces"] = np.where(lines > 1, lines, 0)
        for rate in np.unique(rates).tolist():
            for stock in np.unique(self._stock[sender]).tolist():
                for n in np.unique(lines).tolist():
                    these = (rates == rate) & (self._stock[sender] == stock) & (lines == n)
                    if these.any():
                        key = (rate, operation, stock, n)
                        number = self._transports.setdefault(key, len(self._transports) + 1)
                        rows["transport"][these] = number

    def transports(self) -> tuple[Transport, ...]:
        """Return the transports that flows name, in order."""
        if self.transport is None:
            return ()
        found = (
            transport_for(
                self.transport.model_copy(update={"operation": operation}),
                rate,
                stock=stock,
                interfaces=interfaces,
                topology=self.topology,
            )
            for rate, operation, stock, interfaces in self._transports
        )
        return tuple(found)

    def _udp_ports(
        self, kind: FlowKind, source: Numbers, target: Numbers, channel: Numbers
    ) -> npt.NDArray[np.uint64]:
        """Return UDP source ports spread over RoCE's range by addresses, channel, name and seed."""
        word = self._word
        for byte in kind.name.encode():
            word = mix(word ^ byte)
        pairs = self._address[source] << np.uint64(32) | self._address[target]
        words = mix_words(mix_words(pairs ^ np.uint64(word)) + channel.astype(np.uint64))
        # A queue pair of several takes those that follow, too.
        several = 1 if self.transport is None else self.transport.source_ports
        return FIRST_UDP_PORT + (words >> np.uint64(50)) % np.uint64(UDP_PORTS - several + 1)


def _by_host(combine: np.ufunc, host: Numbers, of_interface: Numbers) -> Numbers:
    """Return, by interface, the sum over all interfaces of its host."""
    begins = np.diff(host, prepend=-1) != 0  # a host's interfaces follow each other
    of_host = combine.reduceat(of_interface, np.flatnonzero(begins))
    found: Numbers = of_host[np.cumsum(begins) - 1]
    return found


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
