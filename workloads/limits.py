"""How large a run may be: what would not fit into memory, or time into 63 bits, is refused."""

from __future__ import annotations

from workloads.flow_sizes import FlowSizes
from workloads.job_schema import (
    AllReduceEntry,
    AllToAllEntry,
    CollectiveEntry,
    JobEntry,
    PipelineEntry,
    RootedEntry,
)
from workloads.schema import MixEntry

MAX_MESSAGES = 1 << 25  # of a run: some GB of memory
MAX_SCRIPT = 1 << 20  # packets
MAX_LINK_DELAY_PS = 10**18  # 11 days; the switch's own limit is 13
TREE_CHUNK = 512 * 1024  # bytes: what a tree passes on at a time, unless told
_PS = 10**12


def collective_messages(job: JobEntry, value: CollectiveEntry | PipelineEntry, size: int) -> int:
    """Return how many messages a phase makes in the whole job, over groups of `size` ranks."""
    match value:
        case PipelineEntry():
            each = 4 * size * value.microbatches
        case AllReduceEntry(algorithm="tree"):
            chunks = -(-value.bytes // (2 * value.channels * (value.chunk or TREE_CHUNK)))
            each = 4 * (size - 1) * chunks * value.channels
        case AllReduceEntry():
            each = 2 * (size - 1) * size * value.channels
        case AllToAllEntry():
            each = -(-(size - 1) // value.fraction) * size * value.channels
        case RootedEntry():
            each = (size - 1) * value.channels
        case _:
            each = (size - 1) * size * value.channels
    barriers = job.ranks
    return (each * (job.ranks // size) + barriers) * value.repeat * job.iterations


def mix_messages(entry: MixEntry, sizes: FlowSizes, rates_bps: int) -> int:
    """Return about how many messages a mix makes on hosts with so much rate together."""
    mean_bytes = int(sizes.evenly.mean())
    bits = (entry.stop - entry.start) * rates_bps * entry.load >> 32
    return bits // (8 * _PS * mean_bytes)
