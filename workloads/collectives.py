"""Collectives as messages that wait for each other, over ranks 0 .. n-1 of one group.

A template says who sends how much to whom after what; `jobs` puts it on interfaces, once for every
group. `bytes` is the buffer of one rank as in nccl-tests: what AllReduce reduces, what AllGather
ends with, what ReduceScatter begins with, what a rank of an all-to-all sends in all.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from workloads.dag import Numbers
from workloads.job_schema import PipelineEntry
from workloads.limits import TREE_CHUNK


@dataclass(frozen=True)
class Template:
    """Messages over local ranks; one with source = destination and no bytes is computing.

    `edges`: (earlier, later) messages. `heads`: (message, rank) pairs: the message waits until the
    rank has begun. `ends`: (message, rank) pairs: the rank is through when the message is done.
    """

    ranks: int
    source: Numbers
    target: Numbers
    bytes: Numbers
    gap_ps: Numbers
    channel: Numbers
    edges: tuple[Numbers, Numbers]
    heads: tuple[Numbers, Numbers]
    ends: tuple[Numbers, Numbers]

    def __len__(self) -> int:
        return len(self.source)


def pieces(size: int, parts: int) -> Numbers:
    """Return `size` bytes cut into parts that differ by at most one byte."""
    return size // parts + (np.arange(parts) < size % parts).astype(np.int64)


def ring(ranks: int, size: int, steps: int, channels: int = 1) -> Template:
    """Return pieces of the buffer that go round a ring, each step from every rank to the next.

    n-1 steps are an AllGather or a ReduceScatter, 2(n-1) an AllReduce. In step s rank r sends
    piece r - s, as soon as it has come in. Each channel is a ring of its own with a share of the
    bytes.
    """
    rank, step, channel = np.arange(ranks), np.arange(steps), np.arange(channels)
    shape = (channels, steps, ranks)
    number = np.arange(channels * steps * ranks).reshape(shape)
    shares = np.array([pieces(int(share), ranks) for share in pieces(size, channels)])
    piece = (rank[None, :] - step[:, None]) % ranks
    before = np.roll(number, 1, axis=2)  # before[c, s, r]: what rank r - 1 sends in that step
    last = number[:, -1, :]
    return Template(
        ranks,
        np.broadcast_to(rank, shape).ravel(),
        np.broadcast_to((rank + 1) % ranks, shape).ravel(),
        shares[:, piece].ravel(),
        np.zeros(number.size, dtype=np.int64),
        np.broadcast_to(channel[:, None, None], shape).ravel(),
        (before[:, :-1, :].ravel(), number[:, 1:, :].ravel()),
        (number.ravel(), np.broadcast_to(rank, shape).ravel()),  # each step needs the own part, too
        (
            np.concatenate([last.ravel(), before[:, -1, :].ravel()]),
            np.tile(rank, 2 * channels),
        ),
    )


def in_network(ranks: int, size: int) -> Template:
    """Return a collective by switches: what a rank sends and its result, as one message.

    `size`: what a rank's interface carries at most, either way. The message's receiver is another
    rank, the next unless `jobs` knows one farther away: up to a root and down again, an empty
    fabric would need as long.
    """
    rank = np.arange(ranks)
    none = np.empty(0, dtype=np.int64)
    return Template(
        ranks,
        rank,
        (rank + 1) % ranks,
        np.full(ranks, size, dtype=np.int64),
        np.zeros(ranks, dtype=np.int64),
        np.zeros(ranks, dtype=np.int64),
        (none, none),
        (rank, rank),
        (rank, rank),
    )


def tree_parent(place: int, count: int) -> int:
    """Return the parent in a binary tree of places 0 .. count-1 with root 0; -1 for the root.

    In order: odd places are leaves, a place's parent has its lowest bit set next higher.
    """
    if place == 0:
        return -1
    low = place & -place
    parent = (place ^ low) | (low << 1)
    return parent if parent < count else place ^ low


def tree(ranks: int, size: int, chunk: int = TREE_CHUNK, channels: int = 1) -> Template:
    """Return AllReduce over two binary trees, each with half of the bytes, chunk by chunk.

    Who passes on in the one is a leaf in the other (Sanders et al., Two-tree algorithms for full
    bandwidth broadcast, reduction and scan, 2009), so that every rank sends and receives about
    `size` twice over. A chunk goes up when it has come from all children, and down again.
    """
    return joined(
        [
            _one_tree(ranks, int(half), chunk, shift, channel)
            for channel, share in enumerate(pieces(size, channels))
            for shift, half in enumerate(pieces(int(share), 2))
        ]
    )


def _one_tree(ranks: int, size: int, chunk: int, shift: int, channel: int) -> Template:
    parent = {
        rank: (tree_parent((rank + shift) % ranks, ranks) - shift) % ranks
        for rank in range(ranks)
        if (rank + shift) % ranks
    }
    root = -shift % ranks
    nodes = np.array(list(parent))
    above = np.array(list(parent.values()))
    chunks = max(1, -(-size // chunk))
    place = {int(node): i for i, node in enumerate(nodes)}
    count = len(nodes)
    up = np.arange(chunks * count).reshape(chunks, count)  # to the parent
    down = up + up.size  # from the parent
    edges: list[tuple[Numbers, Numbers]] = []
    heads: list[tuple[Numbers, Numbers]] = [(up.ravel(), np.tile(nodes, chunks))]
    for node, over in parent.items():
        i = place[node]
        if over == root:
            for sibling in (place[n] for n, p in parent.items() if p == root):
                edges.append((up[:, i], down[:, sibling]))
            heads.append((down[:, i], np.full(chunks, root)))
        else:
            edges.append((up[:, i], up[:, place[over]]))
            edges.append((down[:, place[over]], down[:, i]))
    sizes = np.repeat(pieces(size, chunks)[:, None], count, axis=1).ravel()
    source = np.concatenate([np.tile(nodes, chunks), np.tile(above, chunks)])
    target = np.concatenate([np.tile(above, chunks), np.tile(nodes, chunks)])
    every = np.arange(2 * up.size)
    return Template(
        ranks,
        source,
        target,
        np.tile(sizes, 2),
        np.zeros(2 * up.size, dtype=np.int64),
        np.full(2 * up.size, channel),
        stacked(edges),
        stacked(heads),
        (np.concatenate([every, every]), np.concatenate([source, target])),
    )


def broadcast_ring(
    ranks: int, size: int, root: int, chunk: int = TREE_CHUNK, channels: int = 1
) -> Template:
    """Broadcast from rank to rank, beginning at the root, chunk by chunk."""
    parents = np.arange(ranks - 1)
    shares = pieces(size, channels)
    parts = [
        _down(ranks, int(share), root, parents, chunk, channel)
        for channel, share in enumerate(shares)
    ]
    return joined(parts)


def broadcast_tree(
    ranks: int, size: int, root: int, chunk: int = TREE_CHUNK, channels: int = 1
) -> Template:
    """Broadcast over two binary trees below the root, each with half of the bytes.

    As in `tree`, who passes on in the one is a leaf in the other.
    """
    parts = []
    for channel, share in enumerate(pieces(size, channels)):
        for turned, half in enumerate(pieces(int(share), 2)):
            place = np.arange(1, ranks)  # of this tree, by place 1 .. n-1 behind the root
            if turned:
                place = place % (ranks - 1) + 1
            behind = np.zeros(ranks, dtype=np.int64)
            behind[place] = np.arange(1, ranks)
            parents = behind[[tree_parent(int(each), ranks) for each in place]]
            parts.append(_down(ranks, int(half), root, parents, chunk, channel))
    return joined(parts)


def _down(ranks: int, size: int, root: int, parents: Numbers, chunk: int, channel: int) -> Template:
    """Let chunks go from the root down a tree: `parents[i]` is that of place i + 1, in any order.

    Places count from the root on: rank = (root + place) mod ranks.
    """
    chunks = max(1, -(-size // chunk))
    number = np.arange(chunks * (ranks - 1)).reshape(chunks, ranks - 1)
    source = np.tile((root + parents) % ranks, chunks)
    target = np.tile((root + 1 + np.arange(ranks - 1)) % ranks, chunks)
    below = np.flatnonzero(parents)
    every = number.ravel()
    return Template(
        ranks,
        source,
        target,
        np.repeat(pieces(size, chunks), ranks - 1),
        np.zeros(number.size, dtype=np.int64),
        np.full(number.size, channel),
        (number[:, parents[below] - 1].ravel(), number[:, below].ravel()),
        (every, source),
        (np.concatenate([every, every]), np.concatenate([source, target])),
    )


def all_to_all(
    ranks: int, size: int, fraction: int = 1, window: int | None = None, channels: int = 1
) -> Template:
    """Return the sends of rank r to r + 1, r + 1 + f, r + 1 + 2f, ...: one rank in `fraction`.

    In that order; with a window, so many at a time: the next begins when the one `window` before
    it is done.
    """
    offsets = np.arange(1, ranks, fraction)
    peers = len(offsets)
    rank = np.arange(ranks)
    shape = (peers, channels, ranks)
    number = np.arange(peers * channels * ranks).reshape(shape)
    target = np.broadcast_to((rank[None, None, :] + offsets[:, None, None]) % ranks, shape)
    source = np.broadcast_to(rank, shape)
    shares = np.array([pieces(int(share), channels) for share in pieces(size, peers)])
    at_once = peers if window is None else min(window, peers)
    begin = number[:at_once].ravel()
    every = number.ravel()
    return Template(
        ranks,
        source.ravel(),
        target.ravel(),
        np.repeat(shares, ranks, axis=1).ravel(),
        np.zeros(number.size, dtype=np.int64),
        np.broadcast_to(np.arange(channels)[None, :, None], shape).ravel(),
        (number[: peers - at_once].ravel(), number[at_once:].ravel()),
        (begin, np.tile(rank, at_once * channels)),
        (np.concatenate([every, every]), np.concatenate([source.ravel(), target.ravel()])),
    )


def incast(ranks: int, size: int, root: int = 0, channels: int = 1) -> Template:
    """Return an incast: every rank but the root sends `size` to the root, all at once."""
    senders = np.delete(np.arange(ranks), root)
    source = np.repeat(senders, channels)
    number = np.arange(len(source))
    target = np.full(len(source), root)
    return Template(
        ranks,
        source,
        target,
        np.tile(pieces(size, channels), len(senders)),
        np.zeros(len(source), dtype=np.int64),
        np.tile(np.arange(channels), len(senders)),
        (number[:0], number[:0]),
        (number, source),
        (np.concatenate([number, number]), np.concatenate([source, target])),
    )


def stage_order(stage: int, stages: int, microbatches: int, schedule: str) -> list[tuple[str, int]]:
    """Return what a stage computes in turn: ('F', microbatch) and ('B', microbatch).

    gpipe: all forwards, then all backwards. 1f1b (PipeDream-Flush, as Megatron runs it): as many
    forwards as there are stages behind, then one forward and one backward in turn.
    """
    ahead = microbatches if schedule == "gpipe" else min(microbatches, stages - 1 - stage)
    order = [("F", i) for i in range(ahead)]
    for i in range(microbatches - ahead):
        order += [("F", ahead + i), ("B", i)]
    return order + [("B", i) for i in range(microbatches - ahead, microbatches)]


def pipeline(stages: int, entry: PipelineEntry) -> Template:
    """Return microbatches through stages 0 .. n-1: activations to the next, gradients to the one
    before.

    Each stage computes one thing at a time, in the order of its schedule, and not before what it
    needs has arrived.
    """
    rows: list[tuple[int, int, int, int]] = []  # source, target, bytes, gap
    edges: list[tuple[int, int]] = []
    heads: list[tuple[int, int]] = []
    ends: list[tuple[int, int]] = []
    computed: dict[tuple[str, int, int], int] = {}
    carried: dict[tuple[str, int, int], int] = {}  # by kind, receiving stage, microbatch
    for stage in range(stages):
        before: int | None = None
        for kind, i in stage_order(stage, stages, entry.microbatches, entry.schedule):
            number = computed[kind, stage, i] = len(rows)
            gap = entry.forward if kind == "F" else entry.backward
            rows.append((stage, stage, 0, gap))
            if before is None:
                heads.append((number, stage))
            else:
                edges.append((before, number))
            before = number
            to = stage + 1 if kind == "F" else stage - 1
            if 0 <= to < stages:
                edges.append((number, len(rows)))
                ends.append((len(rows), stage))
                carried[kind, to, i] = len(rows)
                rows.append((stage, to, entry.bytes, 0))
        assert before is not None
        ends.append((before, stage))
    edges += [(carried[place], number) for place, number in computed.items() if place in carried]
    columns = np.array(rows, dtype=np.int64)
    return Template(
        stages,
        columns[:, 0],
        columns[:, 1],
        columns[:, 2],
        columns[:, 3],
        np.zeros(len(rows), dtype=np.int64),
        _columns(edges),
        _columns(heads),
        _columns(ends),
    )


def joined(parts: list[Template]) -> Template:
    """Return several templates over the same ranks as one, side by side."""
    starts = np.cumsum([0, *(len(part) for part in parts)])

    def moved(pairs: list[tuple[Numbers, Numbers]], both: bool) -> tuple[Numbers, Numbers]:
        return stacked(
            [
                (a + start, b + start if both else b)
                for (a, b), start in zip(pairs, starts[:-1], strict=True)
            ]
        )

    return Template(
        parts[0].ranks,
        np.concatenate([part.source for part in parts]),
        np.concatenate([part.target for part in parts]),
        np.concatenate([part.bytes for part in parts]),
        np.concatenate([part.gap_ps for part in parts]),
        np.concatenate([part.channel for part in parts]),
        moved([part.edges for part in parts], True),
        moved([part.heads for part in parts], False),
        moved([part.ends for part in parts], False),
    )


def stacked(pairs: list[tuple[Numbers, Numbers]]) -> tuple[Numbers, Numbers]:
    """Return pairs of arrays as one pair, end to end."""
    none = np.empty(0, dtype=np.int64)
    return (
        np.concatenate([none, *(a for a, _ in pairs)]),
        np.concatenate([none, *(b for _, b in pairs)]),
    )


def _columns(pairs: list[tuple[int, int]]) -> tuple[Numbers, Numbers]:
    columns = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    return columns[:, 0], columns[:, 1]
