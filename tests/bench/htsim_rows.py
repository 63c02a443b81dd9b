"""UEC htsim's validation list under PFC alone: Weft's slowest flow and htsim's recorded one.

    .venv/bin/python tests/bench/htsim_rows.py [--seeds 1 2 3 4 5 6] [--only incast] [--full]

Of htsim (ultraethernet/uet-htsim at 40ccb05): `limit`, the tail FCT that
htsim/sim/datacenter/validate_uec_sender.txt allows, and `recorded`, what validate_outputs has for
it, one run each, by its own congestion control and with packets trimmed where queues are full.
Here nothing slows senders but PFC. Both have links of 100 Gb/s and 1 us, packets of 4 kB and three
tiers, or two of 32 leaves where a row is oversubscribed. htsim's permutation is one that it has
drawn, here each seed draws its own; the other rows name the same hosts, but for 127 to 1 and 1,023
to 1, whose senders are all others. Printed is the median [least, most]. htsim's time ends with the
acknowledgement's arrival at the sender, ours with the last byte's at the receiver: up to 6 us
sooner. `--full` adds the rows of 1,024 hosts.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import command_line
import numpy as np
import yaml

from compiler import compile_p4
from controller.program import CompiledProgram
from mechanisms.program import FABRIC
from mechanisms.registry import defines
from simulator.runner import Simulation
from workloads.loader import read_run
from workloads.plan import plan

BYTES = "2000000B"
LINK = {"rate": "100Gbps", "delay": "1us", "queue": "64MB", "mtu": "4200B"}
CLASSES = {
    "roce": {"dscp": 26, "queue": 3, "lossless": True},
    "control": {"dscp": 48, "queue": 6},
    "rest": {"queue": 0},
}
TRANSPORT = {
    "congestion_control": "none",
    "retransmission": "selective-repeat",
    "reorder": "500us",
    "ack_class": "control",
    "ack_every": 1,
    "window": 1024,
    "timeout": "100ms",
}


@dataclass(frozen=True)
class Row:
    """A row of the list. `paths`: entropies that a sender draws from; `first`: of one flow."""

    name: str
    fabric: Mapping[str, object]
    traffic: list[dict[str, object]]
    limit_us: float
    recorded_us: float
    paths: int = 1
    full: bool = False


def tree(k: int) -> dict[str, object]:
    """Return a fat tree of k^3/4 hosts."""
    return {"generator": "fat_tree", "k": k}


def leaves(spines: int) -> dict[str, object]:
    """Return 32 leaves of 32 hosts each, below so many spines."""
    return {"generator": "leaf_spine", "leaves": 32, "hosts_per_leaf": 32, "spines": spines}


def flow(source: int, target: int, size: str = BYTES) -> dict[str, object]:
    """Return a flow between two of htsim's nodes, which count from 0."""
    return {"message": {"from": f"h{source + 1}", "to": f"h{target + 1}", "bytes": size}}


def incast(target: int, senders: int, size: str = BYTES) -> dict[str, object]:
    """Return a flow from each other node to one."""
    return {"incast": {"to": f"h{target + 1}", "senders": senders, "bytes": size}}


PERMUTATION: list[dict[str, object]] = [{"permutation": {"bytes": BYTES}}]
OUTCASTS = [
    flow(1, 0),
    *(flow(2, to) for to in (0, *range(4, 13))),
    *(flow(3, to) for to in (0, *range(13, 22))),
]

ROWS = (
    Row("one flow", tree(4), [flow(0, 13)], 190, 176.2),
    Row("both ways", tree(4), [flow(0, 13), flow(13, 0)], 190, 176.8),
    Row("incast 15 to 1", tree(4), [incast(15, 15)], 2550, 2478.5),
    Row("incast 127 to 1", tree(8), [incast(33, 127)], 23000, 21029.3),
    Row("one long flow, two short ones", tree(8),
        [flow(127, 0), flow(95, 0, "250kB"), flow(61, 0, "250kB")], 220, 221.7),
    Row("outcast and incast", tree(8), OUTCASTS, 2500, 1638.1),
    Row("permutation of 16, many paths", tree(4), PERMUTATION, 210, 194.0, 128),
    Row("permutation of 16, one path", tree(4), PERMUTATION, 1300, 527.8),
    Row("incast 1,023 to 1, 100 kB", tree(16), [incast(0, 1023, "100kB")], 8950, 10556.2,
        full=True),
    Row("permutation of 1,024, many paths", tree(16), PERMUTATION, 220, 200.5, 128, full=True),
    Row("permutation of 1,024, one path", tree(16), PERMUTATION, 1300, 889.9, full=True),
    Row("the same, 4:1, many paths", leaves(8), PERMUTATION, 880, 785.8, 128, full=True),
    Row("the same, 8:1, many paths", leaves(4), PERMUTATION, 1760, 1443.4, 128, full=True),
)  # fmt: skip


def document(row: Row) -> dict[str, object]:
    """Return the row as a run file."""
    choice = {"kind": "oblivious", "paths": row.paths} if row.paths > 1 else {"kind": "single"}
    return {
        "topology": {**row.fabric, "time_scale": 1, "link": LINK, "classes": CLASSES},
        "until": "100ms",
        "sample": "1ms",
        "buffer": {"shared": "1GB", "alpha": "1/2", "headroom": "formula"},
        "clocks": {"ppm": 50},
        "transport": {**TRANSPORT, "path_choice": choice},
        "traffic": row.traffic,
    }


@cache
def program(text: str) -> CompiledProgram:
    """Return the program of a run file with this text."""
    return CompiledProgram.of(compile_p4(FABRIC, defines=defines(read_run(text).topology)))


def times_us(row: Row, seed: int) -> np.ndarray:
    """Return when each flow's last byte has arrived; all are due at 0."""
    text = yaml.safe_dump(document(row))
    run = read_run(text)
    traffic = plan(run, seed)
    times = Simulation(run, program(text), seed=seed, traffic=traffic).run().end.message_times
    assert (times["done"] >= 0).all(), "a flow was not done"
    ended: np.ndarray = times["done"] / 1e6
    return ended


def said(values: list[float]) -> str:
    """Return the median [least, most], in us."""
    middle = statistics.median(values)
    return f"{middle:.1f} [{min(values):.1f}, {max(values):.1f}]"


def main() -> None:
    """Print a line a row."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3, 4, 5, 6])
    parser.add_argument("--only", default="", metavar="TEXT", help="rows with this in their names")
    parser.add_argument("--full", action="store_true", help="with the rows of 1,024 hosts")
    given = parser.parse_args()
    rows = [row for row in ROWS if given.only in row.name and (given.full or not row.full)]
    if not rows:
        names = "; ".join(row.name for row in ROWS)
        parser.error(f"--only {given.only}: choose a part of one of: {names}")
    print(f"{'slowest flow, us':34} {'limit':>8} {'recorded':>9}   PFC alone")
    for row in rows:
        found = [float(times_us(row, seed).max()) for seed in given.seeds]
        over = "" if statistics.median(found) <= row.limit_us else "   over the limit"
        head = f"{row.name:34} {row.limit_us:8.0f} {row.recorded_us:9.1f}"
        print(f"{head}   {said(found)}{over}", flush=True)


if __name__ == "__main__":
    command_line.run(main)
