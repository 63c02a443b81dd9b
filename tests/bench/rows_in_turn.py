"""Every row of `make bench` in several checkouts, in turn in each round: what a change has done.

    git worktree add ../before 6ca05c1 && make -C ../before setup
    python tests/bench/rows_in_turn.py ../before . [--rounds 3] [--only TEXT] [--json]

Other work on the machine makes all of them slower alike, so each round has a ratio of its own for
each row, and the medians are shown: above 1, the last checkout is better than the first. A row is
compared if both have it, by its first number; whether more or less is better follows from its unit.
Exit code 1 when a median is below 0.97.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import subprocess
import sys
from pathlib import Path

import command_line

RUN = Path("tests") / "bench" / "run.py"
LEAST = 0.97
MORE_IS_BETTER = ("Mpps", "M hops/s", "Gb/s")
LESS_IS_BETTER = ("ns", "us", "us/packet")
_NUMBER = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*(?:,[0-9. ]*)?\s*([A-Za-z/ ]*)")


def rows(checkout: Path) -> dict[str, tuple[float, bool]]:
    """Measure once: row -> (number, more is better)."""
    command = [str(checkout / ".venv/bin/python"), str(RUN), "--json"]
    done = subprocess.run(command, cwd=checkout, capture_output=True, text=True, check=False)
    try:
        lines = json.loads(done.stdout.splitlines()[-1])["lines"]
    except (IndexError, ValueError, KeyError):
        last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise SystemExit(f"error: {checkout}: {RUN} ended with {done.returncode}: {last}") from None
    found: dict[str, tuple[float, bool]] = {}
    for line in lines:
        match = _NUMBER.match(line["value"])
        unit = match.group(2).strip() if match else ""
        if match and unit in (*MORE_IS_BETTER, *LESS_IS_BETTER) and float(match.group(1)):
            found[line["what"]] = (float(match.group(1)), unit in MORE_IS_BETTER)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("checkouts", nargs=2, type=Path, metavar="DIR")
    parser.add_argument("--rounds", type=command_line.count, default=3)
    parser.add_argument("--only", default="", metavar="TEXT", help="rows whose name has it")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    before, after = (each.resolve() for each in arguments.checkouts)
    ratios: dict[str, list[float]] = {}
    for number in range(arguments.rounds):
        if sys.stderr.isatty():
            print(f"\rround {number + 1} of {arguments.rounds}", end="", file=sys.stderr)
        one, other = rows(before), rows(after)
        for name in one.keys() & other.keys():
            if arguments.only in name:
                (old, more), (new, _) = one[name], other[name]
                ratios.setdefault(name, []).append(new / old if more else old / new)
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr)
    medians = {name: statistics.median(found) for name, found in sorted(ratios.items())}
    if arguments.json:
        print(
            json.dumps({name: {"median": medians[name], "all": ratios[name]} for name in medians})
        )
    else:
        print(f"{arguments.rounds} rounds in turn, medians: {after} against {before}")
        for name, median in medians.items():
            print(f"{median:6.3f}  {name}{'' if median >= LEAST else f'   below {LEAST}'}")
    return 0 if all(median >= LEAST for median in medians.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
