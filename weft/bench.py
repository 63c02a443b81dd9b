"""`weft bench`: the benchmarks of the source tree, as one table."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from weft.command_line import as_json, command, flag

SCRIPT = Path(__file__).resolve().parent.parent / "tests" / "bench" / "run.py"


class BenchmarksMissingError(Exception):
    """The benchmarks are not where this package is."""

    def __init__(self) -> None:
        super().__init__(f"there is no {SCRIPT}")
        self.remedy = "benchmarks are part of the source tree: run weft from a clone of it"


@command("""
    examples:
      sudo weft bench
      sudo weft bench --quick --json
    """)
@flag("--quick", help="short rounds, for a first look")
@as_json
def run(quick: bool, as_json: bool) -> int:
    """Run the benchmarks; return their exit code: 1 when a number misses its goal."""
    if not SCRIPT.exists():
        raise BenchmarksMissingError
    options = ["--quick"] * quick + ["--json"] * as_json
    return subprocess.run([sys.executable, str(SCRIPT), *options], check=False).returncode
