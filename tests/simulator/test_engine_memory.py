"""A simulation that runs out of memory says so: what is left of it would be no result."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from simulator.core import build
from tests.simulator.short_of_memory import DELAY

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("until_ps", "what"), [(0, "frames on links"), (DELAY - 1, "what arrives at hosts")]
)
def test_a_run_out_of_memory_fails_and_so_does_every_later_one(until_ps: int, what: str) -> None:
    build.ensure()  # so that the time below is the run's
    command = [sys.executable, "-m", "tests.simulator.short_of_memory", str(until_ps)]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=300
    )
    assert done.stdout.splitlines() == [f"no memory for {what}"] * 2


def test_what_a_switch_has_no_memory_for_is_counted_and_ends_the_run() -> None:
    build.ensure()
    command = [sys.executable, "-m", "tests.simulator.short_of_memory", "20000000", "switch"]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=300
    )
    assert done.stdout.splitlines() == ["no memory for packets in switches"] * 2 + ["True"]
