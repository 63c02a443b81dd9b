"""CPU time a packet of an AllReduce's worker on a host: one contribution sent and one result taken.

    python tests/bench/bench_worker.py [--json] [--rounds 5]

The worker's C core alone, in memory, with 2 and with 256 int32 a packet, as integers and as floats
with exponents: without the kernel's share of a datagram. The best of equally long rounds is told.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
from pathlib import Path

import command_line

from hostagent.collective import build
from softswitch.core.extension import OPTIMISE, WARNINGS, run

SOURCE = Path(__file__).resolve().parent / "worker_packets.c"
CASES = {
    "2 lanes": (2, 0, 1_000_000),
    "256 lanes": (256, 0, 300_000),
    "256 lanes, floats": (256, 1, 300_000),
}


def measure(rounds: int = 5) -> dict[str, float]:
    """ns a packet, by case. Raises softswitch.core.extension.CoreBuildError."""
    with tempfile.TemporaryDirectory() as work:
        program = Path(work) / "worker_packets"
        include = [f"-I{path}" for path in (build.SHARED, build.CORE)]
        sources = [*map(str, build.core_sources()), str(SOURCE)]
        run(["gcc", *WARNINGS, *OPTIMISE, *include, *sources, "-o", str(program)])
        times: dict[str, list[float]] = {name: [] for name in CASES}
        for _ in range(rounds):
            for name, arguments in CASES.items():
                command = [str(program), *map(str, arguments)]
                times[name].append(float(subprocess.check_output(command, text=True)))
    return {name: min(values) for name, values in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--rounds", type=command_line.count, default=5)
    arguments = parser.parse_args()
    result = measure(arguments.rounds)
    if arguments.json:
        print(json.dumps(result))
        return
    for name, value in result.items():
        print(f"{name:20} {value:8.1f} ns/packet")


if __name__ == "__main__":
    command_line.run(main)
