"""Fast CNPs in words: outcomes, and which switches send them."""

from __future__ import annotations

import pytest

from mechanisms.fast_cnp.counters import FAST_CNPS, OUTCOMES, cells
from mechanisms.fast_cnp.words import SUBJECT
from mechanisms.on_off import SwitchState, modes


def test_every_outcome_has_words_of_its_own() -> None:
    assert list(OUTCOMES) == list(cells(0).values()) == list(FAST_CNPS.labels)
    assert all(OUTCOMES.values())
    assert len(set(OUTCOMES.values())) == len(OUTCOMES)


@pytest.mark.parametrize(
    ("counts", "text"),
    [
        ({"sent": 12, "interval": 340, "nobody": 0}, "12 sent, 340 within the interval"),
        ({"unknown_qp": 7}, "0 sent, 7 of unknown queue pairs"),
        ({}, "0 sent"),
    ],
)
def test_counts(counts: dict[str, int], text: str) -> None:
    assert FAST_CNPS.text(counts) == text


@pytest.mark.parametrize(
    ("runs", "text"),
    [
        ([True, True, True], "on"),
        ([False, False, False], "off"),
        ([True, False, True], "on at s1, s3; off at s2"),
        ([False, False, None], "off at s1, s2; unknown to the program at s3"),
    ],
)
def test_modes(runs: list[bool | None], text: str) -> None:
    found = {f"s{n}": SwitchState(each, {}) for n, each in enumerate(runs, start=1)}
    assert modes(found, SUBJECT) == f"fast CNPs are {text}"
