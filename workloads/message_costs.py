"""What messages cost in an empty fabric: alone from end to end, and at both ends' interfaces.

A message of a queue pair over several interfaces is dealt out so that its last full packet arrives
soonest. What it costs its host is counted against all lines of the host together, as an interface
of its own behind the real ones.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from topologies.model import Topology
from workloads.model import Records
from workloads.paths import Paths, PathTable, busy_ps, packet_bytes, wire_bytes, wire_ps

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Costs:
    """Of each message: alone in an empty fabric, and how long it keeps both ends busy.

    `sender`, `receiver`: numbers of the interfaces.
    """

    alone_ps: Numbers
    tx_ps: Numbers
    rx_ps: Numbers
    sender: Numbers
    receiver: Numbers


class MessageCosts:
    """The costs of messages on a run's flows."""

    def __init__(self, topology: Topology, flows: Records, table: PathTable) -> None:
        self.interfaces = sum(len(host.interfaces) for host in topology.hosts)
        starts = np.cumsum([0, *(len(host.interfaces) for host in topology.hosts)])
        self._flows = flows
        self._table = table
        self._sender = starts[flows["src"]] + flows["src_port"]
        self._receiver = starts[flows["dst"]] + flows["dst_port"]
        # Few flows differ in what counts here.
        self._like, self._kind = _distinct(table.kind, flows["payload"], flows["rate_bps"])
        self._first = np.array([links[0] for links in table.links], dtype=np.int64)
        self._last = np.array([links[-1] for links in table.links], dtype=np.int64)
        self._several = flows["interfaces"].astype(np.int64)
        self._devices: Numbers | None = None  # by interface: the one that stands for its host
        if (self._several > 1).any():
            self._take_devices(topology)

    def _take_devices(self, topology: Topology) -> None:
        interfaces = tuple(topology.interfaces())
        hosts = len(topology.hosts)
        host = np.repeat(np.arange(hosts), [len(each.interfaces) for each in topology.hosts])
        self._devices = self.interfaces + host
        links = [topology.link_at(i.host, i.number).rate_bps for i in interfaces]
        self._host_rate = np.zeros(hosts, dtype=np.int64)
        np.add.at(self._host_rate, host, links)
        self._host = host
        at = np.flatnonzero(self._several > 1)
        self._row = np.full(len(self._several), -1)
        self._row[at] = np.arange(len(at))
        # The k-th ways of all such flows; of one with fewer interfaces there is none.
        most = int(self._several.max())
        self._ways: list[tuple[PathTable, Numbers]] = []
        for k in range(most):
            has = self._several[at] > k
            table = Paths(topology).between(
                interfaces, self._sender[at[has]] + k, self._receiver[at[has]] + k
            )
            place = np.full(len(at), -1)
            place[has] = np.arange(int(has.sum()))
            self._ways.append((table, place))
        self.interfaces += hosts

    def load_places(self, places: Numbers) -> Numbers:
        """Return where the loads of interfaces are counted, of a job whose ranks are there."""
        return places if self._devices is None else self._devices[places]

    def of(self, flow: Numbers, size: Numbers) -> Costs:
        """Return what messages of these flows and sizes (bytes) cost."""
        if not len(flow):
            none = np.zeros(0, dtype=np.int64)
            return Costs(none, none, none, none, none)
        flows, table, like = self._flows, self._table, self._like
        # Few sizes differ: every time is computed once for each that does.
        keys = size * len(like) + self._kind[flow]
        distinct, row = np.unique(keys, return_inverse=True)
        sizes, example = distinct // len(like), like[distinct % len(like)]
        payload = flows["payload"].astype(np.int64)[example]
        limit = flows["rate_bps"].astype(np.int64)[example]
        through_ps = table.through_ps(example, sizes, payload, limit)
        links = table.kind[example]
        found = Costs(
            np.where(size > 0, through_ps[row] + table.delay_ps[flow], 0),
            busy_ps(sizes, payload, self._first[links])[row],
            busy_ps(sizes, payload, self._last[links])[row],
            self._sender[flow],
            self._receiver[flow],
        )
        return found if self._devices is None else self._over_several(flow, size, found)

    def _over_several(self, flow: Numbers, size: Numbers, of_one: Costs) -> Costs:
        """Return the costs with those of messages over several interfaces in their place."""
        assert self._devices is not None
        at = np.flatnonzero((self._several[flow] > 1) & (size > 0))
        alone, tx, rx = (row.copy() for row in (of_one.alone_ps, of_one.tx_ps, of_one.rx_ps))
        known: dict[tuple[int, int], int] = {}
        for i in at.tolist():
            key = (int(flow[i]), int(size[i]))
            if key not in known:
                known[key] = self._dealt_ps(*key)
            alone[i] = known[key]
        ends = []
        for busy, end in ((tx, of_one.sender), (rx, of_one.receiver)):
            wire = wire_bytes(size[at], self._flows["payload"].astype(np.int64)[flow[at]])
            busy[at] = wire_ps(wire, self._host_rate[self._host[end[at]]])
            place = end.copy()
            place[at] = self._devices[end[at]]
            ends.append(place)
        return Costs(alone, tx, rx, ends[0], ends[1])

    def _dealt_ps(self, flow: int, size: int) -> int:
        """Return when a message is whole whose packets are dealt over all ways of its flow."""
        payload = int(self._flows["payload"][flow])
        rate = int(self._flows["rate_bps"][flow])
        full, rest = divmod(size, payload)
        first, step = [], []  # of each way: when a full packet is there, and each that follows
        shortest = []  # when the short one could be, alone
        for table, place in self._ways:
            row = place[self._row[flow]]
            if row < 0:
                continue
            delay = int(table.delay_ps[row])
            rates = np.array(table.links[int(table.kind[row])], dtype=np.int64)
            wire = np.full(len(rates), packet_bytes(np.array(payload)))
            times = wire_ps(wire, rates)
            first.append(delay + int(times.sum()))
            step.append(int(times.max()))
            if rest:
                short = np.full(len(rates), packet_bytes(np.array(rest)))
                shortest.append(delay + int(wire_ps(short, rates).sum()))
        low, high = 0, max(first) + full * max(step)
        while low < high:  # the first time by which all full packets can be there
            middle = (low + high) // 2
            there = sum(
                (middle - f) // s + 1 for f, s in zip(first, step, strict=True) if middle >= f
            )
            low, high = (low, middle) if there >= full else (middle + 1, high)
        if rate:  # paced by the flow's own rate: the last packet leaves no sooner
            each = int(wire_ps(packet_bytes(np.array([payload])), np.array([rate]))[0])
            low = max(low, min(first) + max(0, full - 1) * each)
        return max(low if full else 0, min(shortest, default=0))


def _distinct(*columns: Records) -> tuple[Numbers, Numbers]:
    """Return the place of the first row of each kind, and the kind of every row."""
    rows = np.stack([column.astype(np.int64) for column in columns], axis=1)
    _, first, kind = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    return first, kind.ravel()
