"""ENCC while something goes wrong, in virtual time: medians with 95 % intervals (docs/encc.md).

    python tests/bench/encc_adversity.py [--seeds 1,2,3,4,5,6] [--only pause,acks,...]

What is played stands in tests/mechanisms/encc/adversity.py, whose tests play one seed of it.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import command_line

from experiments.statistics import Estimate

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))  # the tests' own package is not installed

from tests.mechanisms.encc import adversity  # noqa: E402

Row = tuple[str, Callable[[int], Any]]


def pause() -> Iterator[Row]:
    """Idle for 20 ms, then on."""
    yield "idle for 20 ms", adversity.paused


def acks() -> Iterator[Row]:
    """Acknowledgements that get lost."""
    for senders in (2, 8):
        for loss in (0, 10, 50):
            for timeout in ("", adversity.RTO) if loss else ("",):
                play = partial(adversity.shared, senders=senders, ack_loss=loss, timeout=timeout)
                yield f"{senders}:1, {loss} % lost, timeout {timeout or '4.2ms'}", play


def ends() -> Iterator[Row]:
    """Messages whose ends are lost, or merely late because a queue grows."""
    for control in ("encc", "swift"):
        play = partial(adversity.ends, senders=1, size="16kB", loss=2, control=control)
        yield f"16 kB after 16 kB, 2 % of the packets lost, {control}", play
        for senders, size in ((16, "16kB"), (60, "16kB"), (60, "64kB"), (60, "500kB")):
            play = partial(adversity.ends, senders=senders, size=size, control=control)
            yield f"incasts of {senders} x {size}, {control}", play


def mute() -> Iterator[Row]:
    """Switches whose program writes nothing: beside the bottleneck, and at it."""
    for trunk, where in ((400, "s2"), (50, "s1")):
        for silent in ((), ("s1",), ("s2",)):
            said = f"8:1, bottleneck at {where}, mute: {', '.join(silent) or 'none'}"
            yield said, partial(adversity.shared, mute=silent, trunk=trunk)


def paths() -> Iterator[Row]:
    """Paths that change: DPFR and flowlets."""
    for link in ("s1-s3", "s2-s3"):
        yield f"{link} goes down", partial(adversity.moved, link=link)
    for policy in ("ecmp", "flowlet", "flowlet-dlb"):
        yield f"{policy}, Gb/s", partial(adversity.flowlets, policy=policy)


def planes() -> Iterator[Row]:
    """Two planes of a queue pair, of which one is cut and mended."""
    yield "a sender's link, which it sees", adversity.plane_cut
    yield "the same link, silently", partial(adversity.plane_cut, known=False)
    yield "no planes: one congestion state for both", partial(adversity.plane_cut, as_planes=False)


PARTS = {
    "pause": pause,
    "acks": acks,
    "ends": ends,
    "mute": mute,
    "paths": paths,
    "planes": planes,
}
PATHS_CHANGE = ("paths", "planes")


def told(rows: Iterator[Row], seeds: list[int]) -> None:
    """Print each row's numbers."""
    for name, play in rows:
        found = [play(seed) for seed in seeds]
        if isinstance(found[0], float):
            print(f"| {name} | {Estimate.of(found)} |", flush=True)
            continue
        each = [asdict(one) for one in found]
        cells = (f"{key} {Estimate.of([one[key] for one in each])}" for key in each[0])
        print(f"| {name} |", "; ".join(cells), "|", flush=True)


def main() -> None:
    """Print all parts; where paths change, again with an ENCC that does not know its paths."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", default="1,2,3,4,5,6")
    parser.add_argument("--only", default=",".join(PARTS))
    asked = parser.parse_args()
    seeds = [int(each) for each in asked.seeds.split(",")]
    parts = asked.only.split(",")
    for name in parts:
        if name not in PARTS:
            parser.error(f"--only {name}: choose of {', '.join(PARTS)}")
    for name in parts:
        for blind in (False, True) if name in PATHS_CHANGE else (False,):
            print(f"\n{name}{', without path identity' * blind}\n", flush=True)
            with adversity.without_path_identity() if blind else nullcontext():
                told(PARTS[name](), seeds)


if __name__ == "__main__":
    command_line.run(main)
