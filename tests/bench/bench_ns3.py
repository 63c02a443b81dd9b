"""The simulator and ns-3 on the same fabric and traffic: hops a second of CPU time.

    python tests/bench/bench_ns3.py [--json]

A fat tree of 128 hosts, each of which sends to eight others at 8 x 0.5 % of its 400 Gb/s: ns-3's
nix-vector routing knows one path a pair, and more would overload its links. Both run in one go, one
after the other. Needs Debian's libns3-dev and g++; says so where they are not there.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import bench_engine
import command_line

ROOT = Path(__file__).resolve().parents[2]
SOURCE = Path(__file__).with_name("ns3") / "fat_tree.cc"
PROGRAM = ROOT / "build" / "bench" / "fat_tree"
MODULES = "core network internet point-to-point applications nix-vector-routing traffic-control"
MISSING = "apt-get install libns3-dev g++"
K, SHARE = 8, 0.005
WARM_US, SPAN_US = 200, 1500


def build() -> bool:
    """Compile ns-3's side; False: it is not installed. SystemExit where g++ refuses."""
    if shutil.which("g++") is None or not Path("/usr/include/ns3").exists():
        return False
    PROGRAM.parent.mkdir(parents=True, exist_ok=True)
    command = ["g++", "-O2", "-DNDEBUG", "-std=c++17", str(SOURCE), "-o", str(PROGRAM)]
    libraries = [f"-lns3-{module}" for module in MODULES.split()]
    done = subprocess.run([*command, *libraries], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"error: {SOURCE.name}: {done.stderr.strip().splitlines()[-1]}")
    return True


def compare() -> dict[str, Any]:
    """Hops a second of both; or what to install."""
    if not build():
        return {"missing": MISSING}
    peers, payload = str(bench_engine.PEERS), str(bench_engine.PAYLOAD)
    command = [str(PROGRAM), str(K), peers, str(SHARE), payload, str(WARM_US), str(SPAN_US)]
    theirs = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    if theirs["packets"] < 0.99 * theirs["offered"]:
        raise SystemExit(f"error: ns-3 lost packets: {theirs}")
    ours = bench_engine.measure(K, share=SHARE)
    return {"ours": ours.hops_per_s, "ns3": theirs["hops"] / theirs["cpu_s"], "detail": theirs}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    print(json.dumps(compare(), indent=None if arguments.json else 2))


if __name__ == "__main__":
    command_line.run(main)
