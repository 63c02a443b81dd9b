"""A hop's cost in several checkouts, in turn in each round: what a change has done to it.

    git worktree add ../before 6ca05c1 && make -C ../before setup
    python tests/bench/in_turn.py ../before . [--rounds 4] [--k 4 16] [--json]

Other work on the machine makes all of them slower alike, so ratios hold where figures do not: each
round has a ratio of its own, and the medians are told. Every checkout runs its own benchmark.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

import command_line

BENCH = Path("tests") / "bench" / "bench_engine.py"


def costs(checkout: Path, k: list[int]) -> dict[int, float]:
    """Nanoseconds a hop by number of hosts, as this checkout measures them now."""
    command = [str(checkout / ".venv/bin/python"), str(BENCH), "--json", "--k", *map(str, k)]
    try:
        done = subprocess.run(command, cwd=checkout, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise SystemExit(
            f"error: {checkout} is not set up; run: make -C {checkout} setup"
        ) from None
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise SystemExit(f"error: {checkout}: {BENCH} ended with {done.returncode}: {last}")
    fabrics = json.loads(done.stdout.splitlines()[-1])["fabrics"]
    return {each["hosts"]: 1e9 / each["hops_per_s"] for each in fabrics}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("checkouts", nargs="+", type=Path, metavar="DIR")
    parser.add_argument("--rounds", type=command_line.count, default=4)
    parser.add_argument("--k", type=command_line.count, nargs="+", default=[4, 16])
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    checkouts = [each.resolve() for each in arguments.checkouts]
    missing = [each for each in checkouts if not (each / BENCH).is_file()]
    if missing:
        parser.error(f"{missing[0]} has no {BENCH}")
    rounds: list[list[dict[int, float]]] = []
    for number in range(arguments.rounds):
        if sys.stderr.isatty():
            print(f"\rround {number + 1} of {arguments.rounds}", end="", file=sys.stderr)
        rounds.append([costs(each, arguments.k) for each in checkouts])
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr)
    print_result([compared(rounds, i) for i in range(len(checkouts))], arguments)


@dataclass(frozen=True)
class Compared:
    """A checkout's medians, by hosts: ns a hop, and its share of the first checkout's.

    `growth`: a hop with the most hosts against one with the fewest.
    """

    ns: dict[int, float]
    to_first: dict[int, float]
    growth: float


def compared(rounds: list[list[dict[int, float]]], i: int) -> Compared:
    sizes = list(rounds[0][0])
    growth = [each[i][sizes[-1]] / each[i][sizes[0]] for each in rounds]
    return Compared(
        {n: statistics.median(each[i][n] for each in rounds) for n in sizes},
        {n: statistics.median(each[i][n] / each[0][n] for each in rounds) for n in sizes},
        statistics.median(growth),
    )


def print_result(found: list[Compared], arguments: argparse.Namespace) -> None:
    names = [str(each) for each in arguments.checkouts]
    if arguments.json:
        rows = [{"checkout": name, **asdict(each)} for name, each in zip(names, found, strict=True)]
        print(json.dumps({"rounds": arguments.rounds, "checkouts": rows}))
        return
    print(f"{arguments.rounds} rounds in turn, medians: ns a hop, and against {names[0]}")
    for name, each in zip(names, found, strict=True):
        sizes = [f"{n} hosts {ns:.0f} ({each.to_first[n]:.2f})" for n, ns in each.ns.items()]
        print(f"{name}: {', '.join(sizes)}; most hosts against fewest {each.growth:.2f}")


if __name__ == "__main__":
    command_line.run(main)
