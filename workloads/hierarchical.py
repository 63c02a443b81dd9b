"""AllReduce over several places: a ring in each, and only reduced pieces from place to place."""

from __future__ import annotations

import numpy as np

from workloads.collectives import Template, joined, pieces, stacked


def hierarchical(ranks: int, inside: int, size: int, channels: int = 1) -> Template:
    """Return AllReduce over places of `inside` consecutive ranks each: only reduced pieces go
    across.

    A ring in each place leaves every rank with one piece of its place's sum. It sends that to the
    rank at the same position of each other place, all at once: one latency, and size / inside to
    every other place. What has come in, added up, goes round the place's ring again.
    """
    parts = [
        _hierarchy(ranks, inside, int(share), channel)
        for channel, share in enumerate(pieces(size, channels))
    ]
    return joined(parts)


def _hierarchy(ranks: int, inside: int, size: int, channel: int) -> Template:
    places, steps = ranks // inside, 2 * (inside - 1)
    at = np.arange(inside)
    rank = np.arange(ranks).reshape(places, inside)
    number = np.arange(steps * ranks).reshape(steps, places, inside)
    across = number.size + np.arange((places - 1) * ranks).reshape(places - 1, places, inside)
    there = np.stack([np.roll(rank, -offset, axis=0) for offset in range(1, places)])
    came = np.stack([np.roll(each, 1 + i, axis=0) for i, each in enumerate(across)])
    before = np.roll(number, 1, axis=2)  # what the one before it in the ring sends in that step
    share = pieces(size, inside)
    piece = (at - np.arange(steps)[:, None]) % inside
    half = inside - 1  # steps until each rank has one piece of its place's sum
    sent = np.broadcast_to(rank, number.shape)
    sends = np.broadcast_to(rank, across.shape)
    onward = [step for step in range(1, steps) if step != half]
    edges = [
        (before[[step - 1 for step in onward]], number[onward]),
        (before[half - 1], number[half]),
        (np.broadcast_to(before[half - 1], across.shape), across),
        (came, np.broadcast_to(number[half], came.shape)),
    ]
    last, every = number[-1], np.concatenate([number.ravel(), across.ravel()])
    source = np.concatenate([sent.ravel(), sends.ravel()])
    ends = [(last, rank), (before[-1], rank), (across, sends), (across, there)]
    return Template(
        ranks,
        source,
        np.concatenate([np.roll(sent, -1, axis=2).ravel(), there.ravel()]),
        np.concatenate(
            [
                np.broadcast_to(share[piece][:, None, :], number.shape).ravel(),
                np.broadcast_to(share[(at + 1) % inside], across.shape).ravel(),
            ]
        ),
        np.zeros(len(every), dtype=np.int64),
        np.full(len(every), channel),
        stacked([(a.ravel(), b.ravel()) for a, b in edges]),
        (every, source),  # each message needs the own part, too
        stacked([(a.ravel(), b.ravel()) for a, b in ends]),
    )
