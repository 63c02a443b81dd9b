"""What an empty fabric would need: the lower bounds that slowdowns are counted against.

The ideal time of a set of messages is the larger of
- the longest chain: messages that wait for each other, each at its own ideal time (`paths`), with
  the computing between them;
- the busiest interface: all that it has to send, or to receive, at its line rate, headers counted,
  and the shortest of its messages' latencies on top.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simulator.dag import Numbers
from simulator.paths import PathTable, busy_ps
from topologies.model import Topology
from topologies.workload_model import MessageArrays, Records


@dataclass(frozen=True)
class Bounds:
    """All messages of a run with what bounds them: by message, and the NICs of flows."""

    arrays: MessageArrays
    alone_ps: Numbers  # by message: alone in an empty fabric
    tx_ps: Numbers  # by message: how long it occupies its sender's interface
    rx_ps: Numbers
    sender: Numbers  # by message: number of the interface
    receiver: Numbers
    interfaces: int

    def chain_ps(self, first: int, stop: int, edges: Edges | None = None) -> int:
        """Return when the last of messages `first` to `stop` - 1 is done at best.

        Time counts from 0. What they wait for outside the range is taken as done at 0; `edges`
        inside it are waited for, too.
        """
        return int(self.finish_ps(first, stop, edges).max(initial=0))

    def finish_ps(self, first: int, stop: int, edges: Edges | None = None) -> Numbers:
        """Return when each of a range of messages is done at best: see `chain_ps`."""
        rows = self.arrays.messages[first:stop]
        starts = self.arrays.first[first : stop + 1].astype(np.int64)
        later = self.arrays.next[starts[0] : starts[-1]].astype(np.int64) - first
        earlier = np.repeat(np.arange(stop - first), np.diff(starts))
        inside = (later >= 0) & (later < stop - first)
        earlier, later = earlier[inside], later[inside]
        weight = np.zeros(len(earlier), dtype=np.int64)
        if edges is not None:
            within = (edges.earlier >= first) & (edges.later < stop)
            earlier = np.concatenate([earlier, edges.earlier[within] - first])
            later = np.concatenate([later, edges.later[within] - first])
            weight = np.concatenate([weight, edges.weight_ps[within]])
        after = rows["gap_ps"] + self.alone_ps[first:stop]
        return _longest(rows["start_ps"], after, earlier, later, weight)

    def busiest_ps(self, first: int, stop: int) -> int:
        """Return what the busiest interface needs for messages `first` to `stop` - 1."""
        bytes_there = np.flatnonzero(self.arrays.messages["bytes"][first:stop]) + first
        if not len(bytes_there):
            return 0
        busiest = 0
        for end, load_ps in ((self.sender, self.tx_ps), (self.receiver, self.rx_ps)):
            numbers, place = np.unique(end[bytes_there], return_inverse=True)
            load = np.zeros(len(numbers), dtype=np.int64)
            np.add.at(load, place, load_ps[bytes_there])
            latency = np.full(len(numbers), np.iinfo(np.int64).max)
            spare = self.alone_ps[bytes_there] - load_ps[bytes_there]
            np.minimum.at(latency, place, spare)
            busiest = max(busiest, int((load + latency).max()))
        return busiest

    def loads_ps(self, first: int, stop: int) -> Numbers:
        """Return for each interface what it has to send or receive, whichever is longer."""
        found = np.zeros((2, self.interfaces), dtype=np.int64)
        np.add.at(found[0], self.sender[first:stop], self.tx_ps[first:stop])
        np.add.at(found[1], self.receiver[first:stop], self.rx_ps[first:stop])
        longer: Numbers = found.max(axis=0)
        return longer

    def ideal_ps(self, first: int, stop: int, edges: Edges | None = None) -> int:
        """Return the ideal time of messages `first` to `stop` - 1, from the first one's ready."""
        if stop <= first:
            return 0
        done = self.finish_ps(first, stop, edges)
        chain_ps = int(done.max() - (done - self.alone_ps[first:stop]).min())
        return max(chain_ps, self.busiest_ps(first, stop))


@dataclass(frozen=True)
class Edges:
    """Bounds beside the messages' own: `later` is not ready before `weight_ps` after `earlier`."""

    earlier: Numbers
    later: Numbers
    weight_ps: Numbers


def bounds(topology: Topology, arrays: MessageArrays, flows: Records, table: PathTable) -> Bounds:
    """Return what bounds the messages of a run."""
    interfaces = sum(len(host.interfaces) for host in topology.hosts)
    starts = np.cumsum([0, *(len(host.interfaces) for host in topology.hosts)])
    flow = arrays.messages["flow"].astype(np.int64)
    size = arrays.messages["bytes"].astype(np.int64)
    alone_ps = np.zeros(len(flow), dtype=np.int64)
    if not len(flow):
        return Bounds(arrays, alone_ps, alone_ps, alone_ps, alone_ps, alone_ps, interfaces)
    # Few flows and few sizes differ: every time is computed once for each that does.
    like, kind = _distinct(table.kind, flows["payload"], flows["rate_bps"])
    keys = size * len(like) + kind[flow]
    distinct, row = np.unique(keys, return_inverse=True)
    sizes, example = distinct // len(like), like[distinct % len(like)]
    payload = flows["payload"].astype(np.int64)[example]
    limit = flows["rate_bps"].astype(np.int64)[example]
    sender = (starts[flows["src"]] + flows["src_port"])[flow]
    receiver = (starts[flows["dst"]] + flows["dst_port"])[flow]
    through_ps = table.through_ps(example, sizes, payload, limit)
    first = np.array([links[0] for links in table.links], dtype=np.int64)
    last = np.array([links[-1] for links in table.links], dtype=np.int64)
    links = table.kind[example]
    alone_ps = np.where(size > 0, through_ps[row] + table.delay_ps[flow], 0)
    tx_ps = busy_ps(sizes, payload, first[links])[row]
    rx_ps = busy_ps(sizes, payload, last[links])[row]
    return Bounds(arrays, alone_ps, tx_ps, rx_ps, sender, receiver, interfaces)


def _distinct(*columns: Records) -> tuple[Numbers, Numbers]:
    """Return the place of the first row of each kind, and the kind of every row."""
    rows = np.stack([column.astype(np.int64) for column in columns], axis=1)
    _, first, kind = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    return first, kind.ravel()


def _longest(
    start: Numbers, after: Numbers, earlier: Numbers, later: Numbers, weight: Numbers
) -> Numbers:
    """Return when each message is done: the latest it waits for, or its start, plus `after`.

    Raises ValueError where messages wait for each other in a circle.
    """
    count = len(start)
    order = np.argsort(earlier, kind="stable")
    later, weight = later[order], weight[order]
    first = np.zeros(count + 1, dtype=np.int64)
    np.cumsum(np.bincount(earlier, minlength=count), out=first[1:])
    waits = np.bincount(later, minlength=count)
    done = start.astype(np.int64).copy()
    ready = np.flatnonzero(waits == 0)
    handled = 0
    while len(ready):
        handled += len(ready)
        done[ready] += after[ready]
        counts = first[ready + 1] - first[ready]
        ends = np.cumsum(counts)
        edges = np.arange(ends[-1]) + np.repeat(first[ready] - (ends - counts), counts)
        targets = later[edges]
        np.maximum.at(done, targets, np.repeat(done[ready], counts) + weight[edges])
        np.subtract.at(waits, targets, 1)
        ready = np.unique(targets[waits[targets] == 0])
    if handled != count:
        raise ValueError(f"{count - handled} of {count} messages wait for each other in a circle")
    return done
