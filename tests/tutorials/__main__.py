"""The solutions of p4lang/tutorials, imported, in virtual and in real time.

    python -m tests.tutorials CHECKOUT                   all 13 in virtual time; needs no root
    python -m tests.tutorials CHECKOUT --real ecn mri    these over namespaces; as root
    python -m tests.tutorials CHECKOUT --both

Each is played twice: solved, where it has to keep what its README promises, and unsolved, where the
same check has to fail. In virtual time `ecn`'s queue and marks and `link_monitor`'s utilisation are
compared with theory as well, and drawn.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.tutorials.checks import CHECKS
from tests.tutorials.network import Real, Runtime, Virtual
from tests.tutorials.played import Row, play
from tests.tutorials.theory import STUDIES, TOLERANCE, Study
from weft import console

FIGURES = Path("build/tutorials")
MOST_S = 60.0
"""Longest that an exercise may take in virtual time."""

_UNSOLVED_PATIENCE_S = 6.0
_SHOWN = 44


def main(argv: Sequence[str] | None = None) -> int:
    """Play what is asked for; return 0 where everything is as it should be, else 1."""
    given = _arguments(argv)
    exercises = [CHECKS[name] for name in given.exercises or CHECKS]
    kinds: list[type[Runtime]] = []
    kinds += [Virtual] if given.virtual or given.both or not given.real else []
    kinds += [Real] if given.real or given.both else []
    if Real in kinds and os.geteuid() != 0:
        print("--real and --both make namespaces: run them as root", file=sys.stderr)
        return 2
    good = True
    with tempfile.TemporaryDirectory(prefix="tutorials-") as place:
        folder = Path(place)
        for kind in kinds:
            rows = []
            for check in exercises:
                pair = []
                for solved in (True, False):
                    runtime = kind()
                    if not solved:
                        runtime.patience_s = _UNSOLVED_PATIENCE_S
                    where = folder / f"{kind.name}-{check.name}-{solved}"
                    with console.progress(f"{check.name}, {kind.name}"):
                        pair.append(play(check, runtime, given.checkout, where, solved=solved))
                rows.append(pair)
            good &= _tell(kind.name, rows)
        if Virtual in kinds:
            for check in exercises:
                if check.name in STUDIES:
                    study = STUDIES[check.name](given.checkout, folder / f"theory-{check.name}")
                    good &= _tell_study(study, given.figures)
    return 0 if good else 1


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(
        prog="python -m tests.tutorials", description=__doc__, formatter_class=raw
    )
    parser.add_argument("checkout", type=Path, help="a checkout of p4lang/tutorials")
    parser.add_argument("exercises", nargs="*", metavar="EXERCISE", help="all, if none is named")
    parser.add_argument("--virtual", action="store_true", help="in the simulator (the default)")
    parser.add_argument("--real", action="store_true", help="over namespaces, as root")
    parser.add_argument("--both", action="store_true", help="one after the other")
    parser.add_argument("--figures", type=Path, default=FIGURES, metavar="DIR",
                        help=f"where pictures go (default: {FIGURES})")  # fmt: skip
    given = parser.parse_intermixed_args(argv)
    if not (given.checkout / "exercises").is_dir():
        parser.error(f"{given.checkout} is no checkout of p4lang/tutorials: it has no exercises/")
    for name in given.exercises:
        if name not in CHECKS:
            parser.error(f"no exercise {name!r}: there is {', '.join(CHECKS)}")
    return given


def _tell(runtime: str, pairs: Sequence[Sequence[Row]]) -> bool:
    """Print a runtime's table; return whether every row is as it should be."""
    shown, kept = [], 0
    for solved, unsolved in pairs:
        is_fast = runtime != Virtual.name or solved.seconds <= MOST_S
        is_kept = solved.why is None and is_fast and unsolved.why is not None
        kept += is_kept
        outcome = "kept" if solved.why is None else f"NOT KEPT: {_line(solved.why)}"
        fails = f"fails: {_line(unsolved.why)}" if unsolved.why is not None else "PASSES TOO"
        seconds = f"{solved.seconds:.1f}" + ("" if is_fast else f" (more than {MOST_S:g})")
        check = solved.check
        shown.append((check.name, check.promise, outcome, seconds, fails))
    console.table(
        ("exercise", "promise", "solution", "s", "the same check, unsolved"),
        shown,
        right=("s",),
        title=f"p4lang/tutorials, imported, {runtime} time",
        caption=f"{kept} of {len(shown)} are kept, and not kept where unsolved",
    )
    return kept == len(shown)


def _tell_study(study: Study, folder: Path) -> bool:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{study.name}.png"
    study.figure.savefig(path, dpi=150)
    rows = [
        (each.what, f"{each.theory:.4g}", f"{each.measured:.4g}", each.unit, f"{each.off:+.2%}")
        for each in study.points
    ]
    console.table(
        ("what", "theory", "measured", "unit", "off"),
        rows,
        right=("theory", "measured", "off"),
        title=f"{study.name} beside theory",
        caption=f"at most {abs(study.worst.off):.2%} off, allowed are {TOLERANCE:.0%}; {path}",
    )
    return abs(study.worst.off) <= TOLERANCE


def _line(text: str) -> str:
    first = text.splitlines()[0] if text else "it says nothing"
    return first if len(first) <= _SHOWN else f"{first[: _SHOWN - 3]}..."


if __name__ == "__main__":
    raise SystemExit(main())
