"""The rows that `weft cli` keeps in a switch."""

from __future__ import annotations

import pytest

from softswitch import diagnostics_ledger
from softswitch.diagnostics import Json
from softswitch.diagnostics_ledger import Ledger
from softswitch.p4runtime.status import Code, EntityError


@pytest.fixture
def states() -> list[object]:
    """Return all states; the last one is what the switch runs."""
    return [object()]


@pytest.fixture
def ledger(states: list[object]) -> Ledger:
    return Ledger(lambda: states[-1])


def rows(ledger: Ledger) -> object:
    return ledger.answer({"section": "s"})["rows"]


def test_rows_come_where_others_changed_them(ledger: Ledger) -> None:
    mine = ledger.answer({"section": "s", "put": {"1": "a", "2": "b"}, "revision": 0})
    assert "rows" not in mine
    assert "rows" not in ledger.answer({"section": "s", "revision": mine["revision"]})
    ledger.answer({"section": "s", "drop": ["1"]})
    theirs = ledger.answer({"section": "s", "revision": mine["revision"]})
    assert theirs["rows"] == {"2": "b"}
    assert rows(ledger) == {"2": "b"}
    ledger.answer({"section": "s", "clear": True, "put": {"3": "c"}})
    assert rows(ledger) == {"3": "c"}


def test_a_guarded_change_is_done_only_on_what_was_seen(ledger: Ledger) -> None:
    seen = ledger.answer({"section": "s", "put": {"1": "a"}})
    guarded = {"section": "s", "put": {"2": "mine"}, "guarded": True}
    assert "rows" not in ledger.answer({**guarded, "revision": seen["revision"]})
    late = ledger.answer({**guarded, "put": {"2": "late"}, "revision": seen["revision"]})
    assert late["rows"] == rows(ledger) == {"1": "a", "2": "mine"}


def test_another_program_forgets_all(ledger: Ledger, states: list[object]) -> None:
    before = ledger.answer({"section": "s", "put": {"1": "a"}})
    states.append(object())
    answer = ledger.answer({"section": "s", "revision": before["revision"]})
    assert answer["rows"] == {}


def test_an_answer_does_not_change_with_the_ledger(ledger: Ledger) -> None:
    ledger.answer({"section": "s", "put": {"1": "a"}})
    answered = rows(ledger)
    ledger.answer({"section": "s", "put": {"2": "b"}})
    assert answered == {"1": "a"}


@pytest.mark.parametrize("clear", [False, True])
def test_too_many_rows_change_nothing(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch, clear: bool
) -> None:
    monkeypatch.setattr(diagnostics_ledger, "MAX_ROWS", 2)
    ledger.answer({"section": "s", "put": {"1": "a", "2": "b"}})
    with pytest.raises(EntityError) as refused:
        too_many: Json = {"3": "c", "4": "d", "5": "e"}
        ledger.answer({"section": "s", "put": too_many, "clear": clear})
    assert refused.value.code is Code.RESOURCE_EXHAUSTED
    assert rows(ledger) == {"1": "a", "2": "b"}


@pytest.mark.parametrize("request_", [{}, {"section": "s", "put": []}, {"section": 1}])
def test_what_is_no_request_is_refused(ledger: Ledger, request_: Json) -> None:
    with pytest.raises(EntityError) as refused:
        ledger.answer(request_)
    assert refused.value.code is Code.INVALID_ARGUMENT
