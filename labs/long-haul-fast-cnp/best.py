"""Picks the best DCQCN of sweep.yaml's sets, and keeps what checks.py and its figure need.

    weft sweep labs/long-haul-fast-cnp/sweep.yaml --out results/long-haul-sweep
    python labs/long-haul-fast-cnp/best.py results/long-haul-sweep

The rule, which no result of fast CNP has a part in: of the sets whose queue stays within 1.1 times
the least peak of all sets, with two senders and with four, the one whose lower goodput is highest.
It writes sweep.csv beside this file and prints the set as lab.yaml has it.
"""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Mapping
from pathlib import Path

KEPT = 1.1
GBPS, MB = 1e9, 1e6
TRAFFIC = "traffic"

Point = tuple[float, float]  # goodput in Gb/s, peak in MB


def senders_of(traffic: str) -> int:
    """How many senders a point's traffic has, as results.csv writes it."""
    return sum(len(entry["incast"]["from"]) for entry in json.loads(traffic))


def read(folder: Path) -> dict[str, dict[int, Point]]:
    """Return goodput and peak by set and number of senders."""
    found: dict[str, dict[int, Point]] = {}
    with (folder / "results.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            if row["failure"]:
                continue
            named = {name: row[name] for name in row if "." in name}
            measured = float(row["goodput"]) / GBPS, float(row["peak_queue"]) / MB
            found.setdefault(json.dumps(named), {})[senders_of(row[TRAFFIC])] = measured
    return found


def best(sets: Mapping[str, Mapping[int, Point]]) -> str:
    """Return the set that the rule picks."""
    counts = sorted({senders for points in sets.values() for senders in points})
    least = {n: min(points[n][1] for points in sets.values() if n in points) for n in counts}
    kept = {
        name: min(goodput for goodput, _ in points.values())
        for name, points in sets.items()
        if all(n in points and points[n][1] <= KEPT * least[n] for n in counts)
    }
    return max(sorted(kept), key=lambda name: kept[name])


def main(folder: Path, out: Path) -> None:
    """Pick, write and print."""
    sets = read(folder)
    picked = best(sets)
    with out.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["senders", "goodput", "peak", "best"])
        for name, points in sorted(sets.items()):
            for senders, (goodput, peak) in sorted(points.items()):
                best_one = "yes" if name == picked else ""
                writer.writerow([senders, f"{goodput:.2f}", f"{peak:.3f}", best_one])
    for path, value in json.loads(picked).items():
        print(f"{path}: {value}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(__file__).resolve().parent / "sweep.csv")
