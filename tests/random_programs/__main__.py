"""`python -m tests.random_programs`: search by random programs, and keep what is found.

    python -m tests.random_programs --seeds 1000
    python -m tests.random_programs --seeds 200 --against bmv2

Each finding is one line, and a program and a test (weft stf) in the folder of -o, made small.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from tests.random_programs import reference, search
from tests.random_programs.draw_program import SMALL
from tests.random_programs.ours import Target


def main(argv: Sequence[str] | None = None) -> int:
    """Return 0: nothing found, 1: something, 2: wrong arguments, 130: ended by Ctrl-C."""
    parser = _parser()
    arguments = parser.parse_args(argv)
    for name in ("seeds", "packets"):
        if getattr(arguments, name) < 1:
            parser.error(f"--{name} {getattr(arguments, name)}: at least 1 is wanted")
    if arguments.output.exists() and not arguments.output.is_dir():
        parser.error(f"-o {arguments.output}: is a file; give a folder")
    against = arguments.against
    if against is not None and (absent := reference.missing(against)):
        print(f"--against {against}: not on PATH: {', '.join(absent)}", file=sys.stderr)
        return 2
    try:
        with tempfile.TemporaryDirectory(prefix="weft-random-") as cache:
            return _search(arguments, Target(cache_dir=Path(cache)))
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130


def _search(arguments: argparse.Namespace, target: Target) -> int:
    against = arguments.against
    settings = search.Settings(
        size=replace(SMALL, portable=against is not None, traffic=arguments.traffic),
        packets=arguments.packets,
        against=against,
        shrink_seconds=arguments.shrink,
        target=target,
    )
    seeds = range(arguments.first, arguments.first + arguments.seeds)
    found = 0
    with Progress(
        TextColumn("seed {task.fields[seed]}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[found]} found"),
    ) as bar:
        task = bar.add_task("", total=len(seeds), seed=arguments.first, found=0)
        for seed in seeds:
            bar.update(task, seed=seed)
            result = search.one(seed, settings)
            if result is not None:
                found += 1
                path = search.keep(result, settings, arguments.output)
                bar.console.print(
                    f"seed {seed}: {result.finding.kind}: {result.finding.line} ({path})",
                    markup=False, highlight=False, soft_wrap=True,
                )  # fmt: skip
            bar.update(task, advance=1, found=found)
    print(f"{len(seeds)} programs, {found} found")
    return int(found > 0)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.random_programs",
        description="Random programs and packets: our compiler and switch beside an oracle that "
        "knows neither, and (--against) beside p4c and BMv2.",
        epilog="exit codes: 0 nothing found, 1 something found, 2 wrong arguments",
    )
    add = parser.add_argument
    add("--seeds", type=int, default=100, metavar="N", help="so many programs (%(default)s)")
    add("--first", type=int, default=0, metavar="N", help="the first seed (%(default)s)")
    add("--packets", type=int, default=12, metavar="N", help="packets a program (%(default)s)")
    add(
        "--against", choices=reference.LEVELS,
        help="p4c: its JSON on our switch too; bmv2: both compilers' JSON on BMv2 too",
    )  # fmt: skip
    add(
        "--traffic", action="store_true",
        help="programs with clones, multicast, resubmission, recirculation, digests and meters",
    )  # fmt: skip
    add("--shrink", type=float, default=60, metavar="S", help="seconds to make one small (60)")
    add(
        "-o", "--output", type=Path, default=Path("build/random_programs"), metavar="DIR",
        help="where programs and tests go (%(default)s)",
    )  # fmt: skip
    return parser


if __name__ == "__main__":
    sys.exit(main())
