"""Which links flows took, the gaps between their packets, and what came out of order.

Runs without `record: {paths: ...}` have none of it: their files are what they were.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from simulator.result_model import Records
from simulator.result_statistics import total
from simulator.result_tables import Column, Kind, TableWriter, integers
from topologies.model import Endpoint, Link, Topology

TABLES = ("gaps", "imbalance", "paths")
FLOW_COLUMNS = integers("reordered_packets", "most_behind_packets")
"""Of flows.parquet."""

_CHUNK = 1 << 17


@dataclass(frozen=True)
class PathsEnd:
    """What was recorded: rows of sim_path_row and sim_gap_row; a sim_flow_order for each flow."""

    links: Records
    gaps: Records
    orders: Records


def flow_columns(end: PathsEnd) -> dict[str, Any]:
    """Return the values of `FLOW_COLUMNS`."""
    return {
        "reordered_packets": end.orders["reordered"],
        "most_behind_packets": end.orders["most_behind"],
    }


def write_paths(
    path: Path, topology: Topology, links: Sequence[Link], end: PathsEnd, about: Mapping[str, str]
) -> int:
    """Write a row for each flow and direction of a link that it took; return how many."""
    ends = [end for link in links for end in (link.a, link.b)]
    tier_of_lane = _tiers(topology, links)
    tiers = tuple(dict.fromkeys(tier_of_lane))
    tier_of = np.array([tiers.index(tier) for tier in tier_of_lane], np.int32)
    names = tuple(str(end) for end in ends)
    writer = TableWriter(
        path,
        (
            *integers("flow", "link"),
            Column("from", Kind.NAME, names),
            Column("to", Kind.NAME, names),
            Column("tier", Kind.NAME, tiers),
            *integers("packets", "bytes"),
        ),
        about,
    )
    for first in range(0, len(end.links), _CHUNK):
        rows = end.links[first : first + _CHUNK]
        start = 2 * rows["link"].astype(np.int64) + rows["direction"]
        columns = {name: rows[name] for name in ("flow", "link", "packets", "bytes")}
        writer.append({**columns, "from": start, "to": start ^ 1, "tier": tier_of[start]})
    writer.close()
    return writer.rows


def _tiers(topology: Topology, links: Sequence[Link]) -> list[str]:
    """Return what kinds of nodes each direction joins, "leaf to spine"; 2 * link + 0 from a."""
    kinds = [_kind(topology, end) for link in links for end in (link.a, link.b)]
    return [f"{kind} to {kinds[start ^ 1]}" for start, kind in enumerate(kinds)]


def _kind(topology: Topology, end: Endpoint) -> str:
    is_switch = topology.is_switch(end.node)
    return topology.switch(end.node).role.value if is_switch else "host"


def write_gaps(path: Path, end: PathsEnd, about: Mapping[str, str]) -> int:
    """Write a row for each flow and range of gaps that it had; return how many."""
    writer = TableWriter(path, integers("flow", "gap_ns", "packets"), about)
    for first in range(0, len(end.gaps), _CHUNK):
        rows = end.gaps[first : first + _CHUNK]
        writer.append({name: rows[name] for name in ("flow", "gap_ns", "packets")})
    writer.close()
    return writer.rows


def paths_summary(
    end: PathsEnd | None,
    window_ps: int | None,
    imbalance: Mapping[str, int],
    topology: Topology,
    links: Sequence[Link],
) -> dict[str, Any]:
    """Return what summary.json says of it; nothing where it was not recorded."""
    if end is None:
        return {}
    arrived, reordered = total(end.orders["arrived"]), total(end.orders["reordered"])
    return {
        "paths": {
            "window_ps": window_ps,
            "tiers": dict(Counter(_tiers(topology, links))),
            "imbalance_ppm": dict(imbalance),
            "arrived_packets": arrived,
            "reordered_packets": reordered,
            "reordered_ppm": reordered * 10**6 // arrived if arrived else 0,
            "most_behind_packets": int(end.orders["most_behind"].max(initial=0)),
        }
    }
