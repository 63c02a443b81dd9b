"""Fabrics as arrays, of any size, and jobs on them: what the planner's tests and benches use."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from controller.jobs import DeclaredJob, FlowSet
from mechanisms.iglb.fabric import Fabric, Ints

RATE = 400e9
PAYLOAD = 4096


def fabric(
    switches: int, links: Sequence[tuple[int, int]] | Ints, leaves: Ints, rate: float = RATE
) -> Fabric:
    """Return a fabric: links between switches, then one of each host; `leaves`: host's switch."""
    pairs = np.asarray(links, dtype=np.int64).reshape(-1, 2)
    hosts = switches + np.arange(len(leaves))
    pairs = np.concatenate([pairs, np.stack([hosts, leaves], axis=1)])
    tail, head = pairs.ravel(), pairs[:, ::-1].ravel()
    out = 2 * (len(pairs) - len(leaves) + np.arange(len(leaves)))
    payload = np.full(len(leaves), PAYLOAD)
    return Fabric(switches, tail, head, np.full(len(tail), rate), leaves, out, payload)


def leaf_spine(leaves: int, spines: int, hosts: int, parallel: int = 1) -> Fabric:
    """Return leaves 0 ..., spines behind them; link (leaf x spines + spine) x parallel + n."""
    leaf, spine, _ = np.indices((leaves, spines, parallel)).reshape(3, -1)
    links = np.stack([leaf, leaves + spine], axis=1)
    return fabric(leaves + spines, links, np.repeat(np.arange(leaves), hosts))


def fat_tree(k: int, hosts: int | None = None) -> Fabric:
    """Return a fat tree of k pods: leaves, then spines, then cores; links below come first."""
    half = k // 2
    hosts = half if hosts is None else hosts
    pod, leaf, spine = np.indices((k, half, half)).reshape(3, -1)
    below = np.stack([pod * half + leaf, k * half + pod * half + spine], axis=1)
    pod, spine, core = np.indices((k, half, half)).reshape(3, -1)
    above = np.stack([k * half + pod * half + spine, 2 * k * half + spine * half + core], axis=1)
    leaves = np.repeat(np.arange(k * half), hosts)
    return fabric(2 * k * half + half * half, np.concatenate([below, above]), leaves)


def job(
    source: Ints, target: Ints, pairs: int = 1, size: int = 1_000_000, name: str = "job"
) -> DeclaredJob:
    """Return a job of one phase: each source sends `size` bytes by so many queue pairs."""
    count = len(source) * pairs
    flows, sizes = np.arange(count), np.full(count, -(-size // pairs))
    return DeclaredJob(
        name, np.repeat(source, pairs), np.repeat(target, pairs), flows % 16384 + 49152,
        (FlowSet("all", 0, flows, sizes),),
    )  # fmt: skip


def derangement(count: int, rng: np.random.Generator) -> Ints:
    """Return a random permutation in which nobody sends to itself: one long ring."""
    ring = rng.permutation(count)
    found = np.empty(count, dtype=np.int64)
    found[ring] = np.roll(ring, -1)
    return found
