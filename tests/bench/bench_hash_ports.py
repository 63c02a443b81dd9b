"""How long it takes to find source ports that lead flows along given paths, on one core.

    python tests/bench/bench_hash_ports.py [--json] [--small]

Random pairs, a random shortest path each; the ports that flows have at first are random. Six seeds:
the median, and the least and the most.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import command_line
import numpy as np

ROOT = Path(__file__).resolve().parents[2]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

import topologies  # noqa: E402 - as a script it runs from any folder
from controller.leaf_routes import Routes  # noqa: E402
from mechanisms.iglb.ecmp_hash import EcmpHash  # noqa: E402
from mechanisms.iglb.hash_ports import choose_ports  # noqa: E402
from tests.mechanisms.iglb.random_paths import random_flows  # noqa: E402

LINK = "time_scale: 1\nlink: {rate: 400Gbps, delay: 1us, queue: 1MB}\n"
CASES = (
    ("64 leaves x 32 spines", "generator: leaf_spine\nspines: 32\nleaves: 64\nhosts_per_leaf: 32"),
    (
        "128 leaves x 64 spines",
        "generator: leaf_spine\nspines: 64\nleaves: 128\nhosts_per_leaf: 64",
    ),
    ("fat tree k=16: 64 ways", "generator: fat_tree\nk: 16"),
)
SMALL = (("4 leaves x 4 spines", "generator: leaf_spine\nspines: 4\nleaves: 4\nhosts_per_leaf: 4"),)
SEEDS = range(1, 7)
FLOWS, FEW = (8_192, 131_072), (64,)


def of_fabric(name: str, text: str, counts: tuple[int, ...]) -> list[dict[str, Any]]:
    """Return a row for each number of flows; `ms`: by seed."""
    routes = Routes.of(topologies.loads(LINK + text))
    hash_ = EcmpHash(routes.topology, routes)
    rows = []
    for count in counts:
        times, tries, kept, missing = [], [], [], 0
        for seed in SEEDS:
            flows = random_flows(routes, pairs=count, queue_pairs=1, seed=seed)
            begin = time.process_time()
            found = choose_ports(hash_, flows.source, flows.target, flows.arcs, flows.udp_port)
            times.append(1000 * (time.process_time() - begin))
            tries.append(found.tries / count)
            kept.append(float(np.mean(found.kept)))
            missing += len(found.missing)
        rows.append(
            {
                "fabric": name, "flows": count, "ms": times, "tries": statistics.mean(tries),
                "kept": statistics.mean(kept), "missing": missing,
            }
        )  # fmt: skip
    return rows


def show(rows: list[dict[str, Any]]) -> None:
    """Print the numbers for people."""
    print(f"{'fabric':24} {'flows':>8} {'ms':>22} {'tries a flow':>13} {'kept':>6} {'none':>5}")
    for row in rows:
        ms = row["ms"]
        shown = f"{statistics.median(ms):.0f} [{min(ms):.0f}, {max(ms):.0f}]"
        print(
            f"{row['fabric']:24} {row['flows']:8} {shown:>22} {row['tries']:13.1f} "
            f"{100 * row['kept']:.1f} % {row['missing']:5}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--small", action="store_true", help="few flows, for a first look")
    arguments = parser.parse_args()
    cases, counts = (SMALL, FEW) if arguments.small else (CASES, FLOWS)
    rows = [row for name, text in cases for row in of_fabric(name, text, counts)]
    if arguments.json:
        print(json.dumps({"rows": rows}))
    else:
        show(rows)


if __name__ == "__main__":
    command_line.run(main)
