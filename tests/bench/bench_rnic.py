"""ns a data packet of the card itself, both ends and their acknowledgements together.

    python tests/bench/bench_rnic.py [--json] [--rounds 5]

One process hands packets of 4096 bytes from one card to another, an acknowledgement for every
eighth: header-only as the simulator does, and whole with memory copied and the ICRC made and
checked. The best of equally long rounds is told.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
from pathlib import Path

import command_line

from hostagent.rnic import build
from softswitch.core import build as core_build

SOURCE = Path(__file__).resolve().parent / "rnic_packets.c"
CASES = {
    "header-only": (0, 0, 1_000_000),
    "header-only, DCQCN": (0, 1, 1_000_000),
    "whole": (1, 0, 100_000),
}


def measure(rounds: int = 5) -> dict[str, float]:
    """ns a data packet, by case. Raises softswitch.core.build.CoreBuildError."""
    with tempfile.TemporaryDirectory() as work:
        program = Path(work) / "rnic_packets"
        include = [f"-I{path}" for path in (build.SHARED, build.CORE, core_build.HERE)]
        sources = [*map(str, build.sources()), str(SOURCE)]
        flags = [*core_build.WARNINGS, *core_build.OPTIMISE]
        core_build.run(["gcc", *flags, *include, *sources, "-o", str(program)])
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
