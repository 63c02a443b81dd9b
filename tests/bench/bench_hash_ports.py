"""How long it takes to find source ports that lead flows along given paths, on one core.

    python tests/bench/bench_hash_ports.py

Random pairs, a random shortest path each; the ports that flows have at first are random. Six seeds:
the median, and the least and the most.
"""

from __future__ import annotations

import statistics
import sys
import time
from pathlib import Path

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
SEEDS = range(1, 7)


def main() -> None:
    """Print a line a fabric and number of flows."""
    print(f"{'fabric':24} {'flows':>8} {'ms':>22} {'tries a flow':>13} {'kept':>6} {'none':>5}")
    for name, text in CASES:
        routes = Routes.of(topologies.loads(LINK + text))
        hash_ = EcmpHash(routes.topology, routes)
        for count in (8_192, 131_072):
            times, tries, kept, missing = [], [], [], 0
            for seed in SEEDS:
                flows = random_flows(routes, pairs=count, queue_pairs=1, seed=seed)
                begin = time.process_time()
                found = choose_ports(hash_, flows.source, flows.target, flows.arcs, flows.udp_port)
                times.append(1000 * (time.process_time() - begin))
                tries.append(found.tries / count)
                kept.append(float(np.mean(found.kept)))
                missing += len(found.missing)
            shown = f"{statistics.median(times):.0f} [{min(times):.0f}, {max(times):.0f}]"
            mean = statistics.mean(tries)
            share = f"{100 * statistics.mean(kept):.1f} %"
            print(
                f"{name:24} {count:8} {shown:>22} {mean:13.1f} {share:>6} {missing:5}", flush=True
            )


if __name__ == "__main__":
    main()
