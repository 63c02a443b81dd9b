"""A trace's nodes as messages that wait for each other.

Computing is a message without bytes that holds its duration, a send a message, a receive one
without bytes behind its own dependences and the send. A collective begins at a rank when that
rank's node may begin, and is over there when that rank's part is done.
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from workloads import collectives
from workloads.collectives import Template
from workloads.dag import FlowKind, FlowTable, MessageTable, Numbers
from workloads.limits import TREE_CHUNK
from workloads.model import Span, SpanKind
from workloads.schema import TraceEntry, TraceNode
from workloads.spans import Spans


def template(node: TraceNode, ranks: int, allreduce: str) -> Template | None:
    """Return a collective's messages over this many ranks; None: nobody sends anything.

    `bytes` of a node are what a rank begins with: AllGather ends with `ranks` times that, and of an
    all-to-all each rank keeps its own part.
    """
    if node.bytes == 0 or ranks < 2 or node.collective == "barrier":
        return None
    match node.collective:
        case "allreduce" if allreduce == "tree":
            return collectives.tree(ranks, node.bytes)
        case "allreduce":
            return collectives.ring(ranks, node.bytes, 2 * (ranks - 1))
        case "allgather":
            return collectives.ring(ranks, node.bytes * ranks, ranks - 1)
        case "reducescatter":
            return collectives.ring(ranks, node.bytes, ranks - 1)
        case "broadcast":
            return collectives.broadcast_ring(ranks, node.bytes, node.root, TREE_CHUNK, 1)
        case _:
            return collectives.all_to_all(ranks, node.bytes - node.bytes // ranks)


class TracePlan:
    """Puts one trace's messages, flows and spans into the tables of a run."""

    def __init__(
        self,
        name: str,
        entry: TraceEntry,
        kind: FlowKind,
        places: Numbers,
        tables: tuple[FlowTable, MessageTable, Spans],
    ) -> None:
        """`places`: the interface of each rank."""
        self.name = name
        self.entry = entry
        self.kind = kind
        self.places = places
        self.flows, self.messages, self.spans = tables

    def plan(self) -> None:
        """Add all nodes."""
        nodes, first = self.entry.trace().nodes, len(self.messages)
        span = self.spans.add(
            Span(SpanKind.TRAFFIC, self.name, first, first, 0, algorithm="trace"),
            lambda bound: bound.ideal_ps(first, stop),
        )
        begin = self._nodes(nodes)
        end = begin.copy()
        for row in _meetings(nodes):
            end[row] = self._collective(nodes[row[0]], np.array(row), begin[row], span)
        pairs = [(end[each], begin[place]) for place, node in enumerate(nodes)
                 for each in node.after]  # fmt: skip
        pairs += [(begin[node.send], begin[place]) for place, node in enumerate(nodes)
                  if node.send is not None]  # fmt: skip
        if pairs:
            earlier, later = np.array(pairs, dtype=np.int64).T
            self.messages.wait(later, earlier)
        stop = len(self.messages)
        self.spans.set_range(span, first, stop)

    def _nodes(self, nodes: list[TraceNode]) -> Numbers:
        """Add a message for each node: what it is, or for a collective its beginning at a rank."""
        flow = np.zeros(len(nodes), dtype=np.int64)
        size = np.zeros(len(nodes), dtype=np.int64)
        sends = np.array(
            [i for i, node in enumerate(nodes) if node.kind == "send" and node.bytes],
            dtype=np.int64,
        )
        if len(sends):
            source = self.places[[nodes[i].rank for i in sends]]
            target = self.places[[nodes[i].peer or 0 for i in sends]]
            flow[sends] = self.flows.flows(self.kind, source, target)
            size[sends] = [nodes[i].bytes for i in sends]
        gap = np.array([node.ps for node in nodes], dtype=np.int64)
        return self.messages.add(flow, size, len(nodes), start_ps=self.entry.start, gap_ps=gap)

    def _collective(self, node: TraceNode, row: Numbers, begin: Numbers, parent: int) -> Numbers:
        """Add one collective; return for each of its ranks the message that ends it there."""
        start, ranks = len(self.messages), len(row)
        shape = template(node, ranks, self.entry.allreduce)
        nodes = self.entry.trace().nodes
        places = self.places[[nodes[i].rank for i in row]]
        waits: list[tuple[Numbers, Numbers]] = []
        if shape is None:
            each = np.repeat(np.arange(ranks), ranks)
            waits.append((each, begin[np.tile(np.arange(ranks), ranks)]))
        else:
            flow = self.flows.flows(
                self.kind, places[shape.source], places[shape.target], shape.channel
            )
            self.messages.add(flow, shape.bytes, len(shape), gap_ps=shape.gap_ps)
            earlier, later = shape.edges
            self.messages.wait(later + start, earlier + start)
            heads, waiting = shape.heads
            self.messages.wait(heads + start, begin[waiting])
            last, through = shape.ends
            waits += [(through, last + start), (np.arange(ranks), begin)]
        stop = len(self.messages)
        ends = self.messages.add(0, 0, ranks)
        for through, earlier in waits:
            self.messages.wait(ends[through], earlier)
        if shape is not None:
            self.spans.add(
                Span(
                    SpanKind.COLLECTIVE,
                    f"{self.name} {node.name or node.collective} {node.meeting}",
                    start,
                    stop,
                    0,
                    parent=parent,
                    algorithm=node.collective or "",
                    ranks=ranks,
                    bytes_per_rank=node.bytes,
                ),
                lambda bound: bound.ideal_ps(start, stop),
            )
        return ends


def _meetings(nodes: list[TraceNode]) -> list[list[int]]:
    """Return the places of each collective's nodes, in the order of its group's ranks."""
    rows: dict[int, list[int]] = defaultdict(list)
    for place, node in enumerate(nodes):
        if node.meeting is not None:
            rows[node.meeting].append(place)
    order = {place: node.turn for place, node in enumerate(nodes)}
    return [sorted(rows[number], key=order.__getitem__) for number in sorted(rows)]
