"""Picks the best DCQCN of sweep.yaml's sets, and keeps what checks.py and its figure need.

    python labs/long-haul-fast-cnp/best.py results/long-haul-sweep --play    plays the sets first
    python labs/long-haul-fast-cnp/best.py results/long-haul-sweep

The same sets are played in four cases, two and four senders over 100 and 300 km, by a `weft sweep`
each: what is drawn for one parameter does not depend on the others. The rule, which no result of
fast CNP has a part in: a card has one set, whatever it talks to. So of the sets whose queue stays
within 1.1 times the least peak of all sets in each case, the one whose lowest share of the best
goodput of its case is highest. It writes sweep.csv beside this file and prints the set as lab.yaml
has it.
"""

from __future__ import annotations

import argparse
import csv
import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

HERE = Path(__file__).resolve().parent
KEPT = 1.1
GBPS, MB = 1e9, 1e6
TRAFFIC, LENGTH = "traffic", "topology.links.0.length"

CASES = tuple((length, senders) for length in ("100km", "300km") for senders in (2, 4))

Case = tuple[str, int]  # length, senders
Point = tuple[float, float]  # goodput in Gb/s, peak in MB
Sets = Mapping[str, Mapping[Case, Point]]


def senders_of(traffic: str) -> int:
    """How many senders a point's traffic has, as results.csv writes it."""
    return sum(len(entry["incast"]["from"]) for entry in json.loads(traffic))


def traffic(senders: int) -> str:
    """Return what a case's senders do, as lab.yaml has it: half send 1 GB together, half go on."""
    half = senders // 2
    ends, goes_on = ([f"h{i}" for i in range(first, first + half)] for first in (1, 1 + half))
    entries = [
        {"incast": {"to": "r1", "from": ends, "bytes": f"{1000 // senders}MB"}},
        {"incast": {"to": "r1", "from": goes_on, "persistent": True}},
    ]
    return json.dumps(entries)


def play(folder: Path) -> None:
    """Play all sets in each case, a sweep a case. Raises CalledProcessError."""
    for length, senders in CASES:
        command = [str(Path(sys.executable).with_name("weft")), "sweep", str(HERE / "sweep.yaml")]
        varied = {LENGTH: length, TRAFFIC: traffic(senders)}
        options = [word for path in varied for word in ("--vary", f"{path}={varied[path]}")]
        out = folder / f"{length}-{senders}"
        subprocess.run([*command, *options, "--out", str(out)], check=True)


def read(folder: Path) -> dict[str, dict[Case, Point]]:
    """Return goodput and peak by set and case."""
    found: dict[str, dict[Case, Point]] = {}
    for results in sorted(folder.glob("*/results.csv")):
        with results.open(newline="") as file:
            for row in csv.DictReader(file):
                if row["failure"]:
                    continue
                case = row[LENGTH], senders_of(row[TRAFFIC])
                named = {name: row[name] for name in row if "." in name and name != LENGTH}
                measured = float(row["goodput"]) / GBPS, float(row["peak_queue"]) / MB
                found.setdefault(json.dumps(named), {})[case] = measured
    return found


def kept(sets: Sets) -> dict[Case, dict[str, float]]:
    """Return the goodput of the sets that keep to the least peak, by case."""
    cases = sorted({case for points in sets.values() for case in points})
    least = {case: min(p[case][1] for p in sets.values() if case in p) for case in cases}
    return {
        case: {
            name: points[case][0]
            for name, points in sets.items()
            if case in points and points[case][1] <= KEPT * least[case]
        }
        for case in cases
    }


def best(sets: Sets) -> str:
    """Return the set that the rule picks."""
    by_case = kept(sets)
    everywhere = set.intersection(*(set(found) for found in by_case.values()))
    shares = {
        name: min(found[name] / max(found.values()) for found in by_case.values())
        for name in everywhere
    }
    return max(sorted(shares), key=lambda name: shares[name])


def main(folder: Path, out: Path) -> None:
    """Pick, write and print."""
    sets = read(folder)
    picked = best(sets)
    with out.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["length", "senders", "goodput", "peak", "best"])
        for name, points in sorted(sets.items()):
            for (length, senders), (goodput, peak) in sorted(points.items()):
                is_best = "yes" if name == picked else ""
                writer.writerow([length, senders, f"{goodput:.2f}", f"{peak:.3f}", is_best])
    for path, value in json.loads(picked).items():
        print(f"{path}: {value}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path, help="where the sweeps' results are")
    parser.add_argument("--play", action="store_true", help="play the sweeps into it first")
    asked = parser.parse_args()
    if asked.play:
        play(asked.folder)
    main(asked.folder, HERE / "sweep.csv")
