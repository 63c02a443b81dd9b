"""The exercises' solutions as imported topologies: `python -m tests.tutorials` says the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tutorials.checks import CHECKS
from tests.tutorials.network import Real, Virtual
from tests.tutorials.played import play
from tests.tutorials.theory import STUDIES, TOLERANCE

VIRTUAL_S = 60.0


def test_every_exercise_has_a_check(checkout: Path) -> None:
    there = {path.parent.name for path in (checkout / "exercises").glob("*/solution")}
    assert there == set(CHECKS)


@pytest.mark.parametrize("name", CHECKS)
def test_in_virtual_time_it_is_kept_solved_and_not_otherwise(
    name: str, checkout: Path, tmp_path: Path
) -> None:
    row = play(CHECKS[name], Virtual(), checkout, tmp_path / "solved", solved=True)
    assert row.why is None, row.why
    assert row.seconds < VIRTUAL_S
    impatient = Virtual()
    impatient.patience_s = 1.0
    row = play(CHECKS[name], impatient, checkout, tmp_path / "unsolved", solved=False)
    assert row.why is not None


@pytest.mark.root
@pytest.mark.parametrize("name", CHECKS)
def test_in_real_time_it_is_kept(name: str, checkout: Path, tmp_path: Path) -> None:
    row = play(CHECKS[name], Real(), checkout, tmp_path / "solved", solved=True)
    assert row.why is None, row.why


@pytest.mark.parametrize("name", STUDIES)
def test_curves_are_those_of_theory(name: str, checkout: Path, tmp_path: Path) -> None:
    worst = STUDIES[name](checkout, tmp_path / "theory").worst
    assert abs(worst.off) <= TOLERANCE, worst
