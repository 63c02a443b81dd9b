"""Measures what a command can tell of the project's state, and writes it into docs/STATUS.md.

    sudo .venv/bin/python tests/status.py [--print]

Runs the topology, the compiler, the recorded vectors and the benchmarks of this tree, one after
the other (about two minutes), and replaces the part between the two markers. Needs root, as
run-topo does. The rest of the page is written by hand. Exit code 1 when a number is not met.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "STATUS.md"
BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"


@dataclass(frozen=True)
class Row:
    """One number: what was wanted, what was measured, and the command that shows it."""

    what: str
    wanted: str
    measured: str
    met: bool
    command: str


def output(*command: str, **environment: str) -> str:
    """Run a command of this tree and return its standard output, whatever its exit code."""
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    return done.stdout


def result(*command: str, **environment: str) -> Any:
    """Return the JSON that a command prints. Raises SystemExit naming it if there is none."""
    text = output(*command, **environment)
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        raise SystemExit(f"{' '.join(command)}: printed no JSON; run it alone to see why") from None


def weft(*arguments: str) -> tuple[str, ...]:
    return (str(ROOT / ".venv/bin/weft"), *arguments)


def python(*arguments: str) -> tuple[str, ...]:
    return (sys.executable, *arguments)


def run_topo_rows() -> list[Row]:
    begin = time.monotonic()
    run = result(*weft("run-topo", "--json"))
    seconds = time.monotonic() - begin
    rows = [
        Row(
            "results table, set-up done before",
            "< 20 s",
            f"{seconds:.1f} s",
            seconds < 20,
            "make run-topo",
        )
    ]
    rows += [Row(r["what"], "ok", r["result"], r["ok"], "make run-topo") for r in run["rows"]]
    return rows


def compile_rows() -> list[Row]:
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for name, limit in (("cold", 5.0), ("from cache", 0.3)):
            compiled = result(
                *weft("compile", "--time", "--json", "p4src/fabric.p4", "-o", folder),
                WEFT_CACHE_DIR=f"{folder}/cache",
            )
            seconds = compiled["seconds"]["total"]
            rows.append(
                Row(
                    f"fabric.p4 compiled and built, {name}",
                    f"< {limit} s",
                    f"{seconds:.2f} s",
                    seconds < limit,
                    "weft compile --time",
                )
            )
    return rows


def vector_rows() -> list[Row]:
    wanted = {"l3": 55, "features": 120}
    return [
        Row(
            f"BMv2's recorded answers, {part['program']}, JSON by {part['compiler']}",
            f">= {wanted[part['program']]}",
            f"{part['passed']} of {part['cases']}",
            part["passed"] >= wanted[part["program"]],
            "python tests/softswitch/vectors.py",
        )
        for part in result(*python("tests/softswitch/vectors.py", "--json"))
    ]


PROOFS = {
    "delivery under loss, duplication, reordering, corruption": (
        "bit-exact, both retransmissions",
        "tests/hostagent/test_rnic_delivery.py",
    ),
    "DCQCN in the kernel against the native header": (
        "equal state, 10^6 sequences",
        "tests/hostagent/test_dcqcn_kernel.py",
    ),
    "DCQCN against the fluid model's own solution": (
        "means <= 25 % off, Jain >= 0.99 (its fixed point: see The endpoint)",
        "tests/simulator/test_dcqcn_",
    ),
    "weft perf between hosts of a run": ("peers that die harm nobody", "tests/weft/test_perf_"),
}
"""What tests show of the endpoint: what is wanted, and where the tests' names begin."""


def proof_rows() -> list[Row]:
    rows = []
    for what, (wanted, start) in PROOFS.items():
        files = sorted(str(path.relative_to(ROOT)) for path in ROOT.glob(f"{start}*"))
        command = ("-m", "pytest", "-q", *files)
        said = output(*python(*command)).strip().splitlines()
        last = said[-1] if files and said else "no such tests"
        good = " passed" in last and "failed" not in last and "error" not in last
        rows.append(Row(what, wanted, last.strip("= "), good, f"pytest {' '.join(files)}"))
    return rows


def bench_rows() -> list[Row]:
    return [
        Row(
            line["what"].strip(),
            line["goal"],
            line["value"],
            line["met"] is not False,
            "make bench",
        )
        for line in result(*python("tests/bench/run.py", "--json"))["lines"]
    ]


def page_part(rows: list[Row]) -> str:
    """Return the Markdown between the markers."""
    version = output("git", "describe", "--always").strip()
    text = f"Measured at {version}, on {os.cpu_count()} cores.\n\n"
    text += "| what | wanted | measured | | shown by |\n|---|---|---|---|---|\n"
    for row in rows:
        cells = (
            row.what,
            row.wanted or "-",
            row.measured,
            "met" if row.met else "NOT MET",
            f"`{row.command}`",
        )
        text += "| " + " | ".join(cells) + " |\n"
    return text


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure and write docs/STATUS.md.")
    parser.add_argument("--print", action="store_true", help="print it, change no file")
    arguments = parser.parse_args()
    rows = run_topo_rows() + compile_rows() + vector_rows() + proof_rows() + bench_rows()
    part = page_part(rows)
    if arguments.print:
        print(part, end="")
    else:
        before, _, rest = PAGE.read_text().partition(BEGIN)
        _, _, after = rest.partition(END)
        PAGE.write_text(f"{before}{BEGIN}\n{part}{END}{after}")
    return 0 if all(row.met for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
