"""How large a run may be: what would not fit into memory, or time into 63 bits, is refused."""

from __future__ import annotations

from collections import Counter

from workloads.flow_sizes import FlowSizes
from workloads.job_schema import (
    AllGatherEntry,
    AllReduceEntry,
    AllToAllEntry,
    BroadcastEntry,
    CollectiveEntry,
    JobEntry,
    PipelineEntry,
    RootedEntry,
)
from workloads.schema import MixEntry, TraceEntry, TraceNode

MAX_MESSAGES = 1 << 25  # of a run that are kept: some GB of memory
MAX_DUE_MESSAGES = 1 << 32  # of a run with those that are made as they are due: days
MAX_FLOWS = 0xFFFFFE  # the engine's: queue pairs have numbers of 24 bits
MAX_SCRIPT = 1 << 20  # packets
MAX_LINK_DELAY_PS = 10**18  # 11 days; the switch's own limit is 13
TREE_CHUNK = 512 * 1024  # bytes: what a tree passes on at a time by default
IN_NETWORK = "in-network"
"""The algorithm of collectives that switches carry."""

_PS = 10**12


def group_size(job: JobEntry, over: str) -> int | None:
    """Return how many ranks a group has; None where the job does not say: ep, dp_ep."""
    tp, pp = job.tp or 1, job.pp or 1
    dp = job.dp or job.ranks // (tp * pp)
    if over in ("ep", "dp_ep"):
        return None if job.ep is None else job.ep if over == "ep" else dp // job.ep
    return {"all": job.ranks, "tp": tp, "pp": pp, "dp": dp}[over]


def is_regular(value: CollectiveEntry | PipelineEntry) -> bool:
    """Return whether a phase's messages can be made as they are due: rings and all-to-alls."""
    match value:
        case PipelineEntry() | RootedEntry() | BroadcastEntry():
            return False
        case AllReduceEntry(algorithm="tree" | "hierarchical" | "in-network"):
            return False
        case AllGatherEntry(algorithm="in-network"):
            return False
        case _:
            return True


def collective_messages(job: JobEntry, value: CollectiveEntry | PipelineEntry, size: int) -> int:
    """Return how many messages a phase makes in the whole job, over groups of `size` ranks."""
    match value:
        case PipelineEntry():
            each = 4 * size * value.microbatches
        case AllReduceEntry(algorithm="tree"):
            chunks = -(-value.bytes // (2 * value.channels * (value.chunk or TREE_CHUNK)))
            each = 4 * (size - 1) * chunks * value.channels
        case AllReduceEntry(algorithm="hierarchical"):
            inside = value.inside or size
            each = (2 * (inside - 1) + size // inside - 1) * size * value.channels
        case AllReduceEntry() | AllGatherEntry() | BroadcastEntry() if (
            value.algorithm == IN_NETWORK
        ):
            each = size
        case BroadcastEntry():
            trees = 2 if value.algorithm == "tree" else 1
            parts = trees * value.channels
            chunks = -(-value.bytes // (parts * (value.chunk or TREE_CHUNK)))
            each = (size - 1) * chunks * parts
        case AllReduceEntry():
            each = 2 * (size - 1) * size * value.channels
        case AllToAllEntry():
            each = -(-(size - 1) // value.fraction) * size * value.channels
        case RootedEntry():
            each = (size - 1) * value.channels
        case _:
            each = (size - 1) * size * value.channels
    return each * (job.ranks // size) * value.repeat * job.iterations + barriers(job, value)


def barriers(job: JobEntry, value: CollectiveEntry | PipelineEntry) -> int:
    """Return how many messages of a phase in the whole job are barriers."""
    return job.ranks * value.repeat * job.iterations


def collective_flows(job: JobEntry, value: CollectiveEntry | PipelineEntry, size: int) -> int:
    """Return how many flows a phase has in the whole job, if they are many: else 0."""
    if not isinstance(value, AllToAllEntry):
        return 0
    return -(-(size - 1) // value.fraction) * job.ranks * value.channels


def job_messages(job: JobEntry) -> int:
    """Return how many messages a job makes at most."""
    found = 0
    for phase in job.phases:
        for step in phase.parallel or [phase]:
            value = getattr(step, step.kind)
            size = None if isinstance(value, int) else group_size(job, value.over)
            if size is not None:
                found += collective_messages(job, value, size)
    return found


def mix_messages(entry: MixEntry, sizes: FlowSizes, rates_bps: int) -> int:
    """Return about how many messages a mix makes on hosts with so much rate together."""
    mean_bytes = int(sizes.evenly.mean())
    bits = (entry.stop - entry.start) * rates_bps * entry.load >> 32
    return bits // (8 * _PS * mean_bytes)


def trace_messages(entry: TraceEntry) -> int:
    """Return how many messages a trace makes: one a node, and those of its collectives."""
    nodes = entry.trace().nodes
    ranks = Counter(node.meeting for node in nodes if node.meeting is not None)
    found = len(nodes) + ranks.total()  # each rank's end of a collective
    for node in nodes:
        if node.meeting is not None and node.turn == 0:
            found += _trace_collective(node, ranks[node.meeting], entry.allreduce)
    return found


def sends_anything(entry: TraceEntry) -> bool:
    """Return whether any message of a trace has bytes."""
    meetings = Counter(node.meeting for node in entry.trace().nodes)
    return any(
        node.bytes > 0
        and (node.kind == "send" or (node.collective != "barrier" and meetings[node.meeting] > 1))
        for node in entry.trace().nodes
        if node.kind in ("send", "collective")
    )


def _trace_collective(node: TraceNode, ranks: int, allreduce: str) -> int:
    if node.bytes == 0 or node.collective == "barrier":
        return 0
    chunks = -(-node.bytes // TREE_CHUNK)
    match node.collective:
        case "allreduce" if allreduce == "tree":
            return 2 * (ranks - 1) * (chunks + 1)
        case "allreduce":
            return 2 * (ranks - 1) * ranks
        case "broadcast":
            return (ranks - 1) * chunks
        case _:
            return (ranks - 1) * ranks
