"""The figures of "ECN or Delay" against our model: by the authors' way, and by their equations.

Their margins are not those of their equations. Where the two differ in sign, the equations are
solved, and ours is right; published.py has what differs, step by step.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mechanisms.dcqcn.published import (
    CHANGED,
    CONVERGENCE,
    MARGINS,
    STEPS,
    Exact,
    Published,
    convergence_s,
    figure_3,
    margin,
    margin_rows,
    swings,
)


@pytest.mark.parametrize("delay", MARGINS)
def test_margins_are_published_ones_by_the_authors_approximations(delay: int) -> None:
    for flows, degrees in MARGINS[delay].items():
        assert margin(figure_3(Published, flows, delay)) == pytest.approx(degrees, abs=0.1)


def test_no_step_from_ours_to_theirs_can_be_left_out() -> None:
    found = [[margin(figure_3(kind, n, 50)) for n in MARGINS[50]] for kind in STEPS]
    for one, other in zip(found[1:], found, strict=False):
        assert max(abs(a - b) for a, b in zip(one, other, strict=True)) > 0.25


@pytest.mark.parametrize(
    ("flows", "delay", "rests", "as_published"),
    [(10, 50, True, False), (10, 100, False, True), (50, 100, True, True),
     # Of these three the paper says so itself, by the same equations' solution (figure 4).
     (2, 85, True, False), (10, 85, False, True), (64, 85, True, True)],
)  # fmt: skip
def test_the_equations_rest_where_our_margin_says_so(
    flows: int, delay: float, rests: bool, as_published: bool
) -> None:
    ours = figure_3(Exact, flows, delay)
    assert (margin(ours) > 0) == (ours.stability().growth < 0) == rests
    assert (margin(figure_3(Published, flows, delay)) > 0) == (rests == as_published)
    early, late = swings(ours, 0.12)
    assert (late < early) == rests


@pytest.mark.parametrize("figure", CONVERGENCE)
def test_convergence_times_are_published_ones(figure: str) -> None:
    for flows, seconds in CONVERGENCE[figure].items():
        assert convergence_s(flows, **CHANGED[figure]) == pytest.approx(seconds, rel=5e-5)


def test_the_page_has_the_table() -> None:
    page = (Path(__file__).parents[3] / "docs" / "congestion-control.md").read_text()
    assert "\n".join(margin_rows()) in page
