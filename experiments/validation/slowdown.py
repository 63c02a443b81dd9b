"""Completion times as slowdowns by size decile: one definition for all simulators.

A flow's ideal time is HPCC's (scratch/third.cc, qp_finish): the delay of its links, a packet's time
on each of them, and all its bytes, headers counted and telemetry not, at the host's rate. Theirs
has both ways, to the last acknowledgement; here the first way alone, from the flow's start to its
last byte at the receiver, which is what is congested. A slowdown below 1 counts as 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from experiments.validation.cases import HOST_BPS, LINK_DELAY_PS, PAYLOAD, TRUNK_BPS, Fabric
from workloads.hpcc import Connection

PARTS = 10
SHARES = (("p50", 0.5), ("p95", 0.95), ("p99", 0.99))

_PS = 10**12

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Decile:
    """A tenth of the flows by size: the longest one's bytes, how many, slowdowns."""

    most_bytes: int
    flows: int
    p50: float
    p95: float
    p99: float


def one_way_ps(fabric: Fabric, connections: Sequence[Connection], wire_bytes: Numbers) -> Numbers:
    """Return ideal times to the last byte. `wire_bytes`: of each flow, headers counted."""
    apart = np.array([fabric.links_between(a, b) for a, b, _, _ in connections], dtype=np.int64)
    host_ps, trunk_ps = (PAYLOAD * 8 * _PS // rate for rate in (HOST_BPS, TRUNK_BPS))
    first = apart @ np.array([LINK_DELAY_PS + host_ps, LINK_DELAY_PS + trunk_ps])
    found: Numbers = first + wire_bytes * (
        8 * _PS // HOST_BPS
    )  # 80 ps a byte: whole, and far from 2^63
    return found


def deciles(sizes: Numbers, took_ps: Numbers, ideal_ps: Numbers) -> list[Decile]:
    """Return the flows' slowdowns, ten parts of equal count from the shortest flows on.

    Percentiles are those of HPCC's fct_analysis.py: of n sorted values number floor(n p) from 0.
    Raises ValueError with fewer flows than parts.
    """
    if len(sizes) < PARTS:
        raise ValueError(f"{len(sizes)} flows can't be cut into {PARTS} parts")
    order = np.argsort(sizes, kind="stable")
    slowdowns = np.maximum(took_ps / ideal_ps, 1.0)
    found = []
    for part in np.array_split(order, PARTS):
        values = np.sort(slowdowns[part])
        at = {name: float(values[int(len(values) * share)]) for name, share in SHARES}
        found.append(Decile(int(sizes[part].max()), len(part), **at))
    return found


def of_rows(rows: Sequence[dict[str, Any]]) -> list[Decile]:
    """Return what was written as JSON. Raises TypeError where a row is none."""
    return [Decile(**row) for row in rows]
