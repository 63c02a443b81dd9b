"""`weft bench`: the benchmarks of the source tree, as one table."""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).resolve().parent.parent / "tests" / "bench" / "run.py"


class BenchmarksMissingError(Exception):
    """The benchmarks are not where this package is."""

    def __init__(self) -> None:
        super().__init__(f"there is no {SCRIPT}")
        self.remedy = "benchmarks are part of the source tree: run weft from a clone of it"


def run(arguments: argparse.Namespace) -> int:
    """Run the benchmarks; returns their exit code: 1 when a number misses its goal."""
    if not SCRIPT.exists():
        raise BenchmarksMissingError
    options = [name for name in ("--quick", "--json") if getattr(arguments, name[2:])]
    return subprocess.run([sys.executable, str(SCRIPT), *options], check=False).returncode
