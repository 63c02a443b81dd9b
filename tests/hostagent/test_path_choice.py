"""The card's choices of paths against a model of each, packet by packet in virtual time."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hostagent.rnic.native import native
from hostagent.rnic.path_kinds import DEFAULT_PAUSE_NS, PathKind
from tests.hostagent.path_model import (
    GOOD,
    LOST,
    MARKED,
    TIMEOUT,
    Bitmap,
    Model,
    Oblivious,
    Plb,
    Reps,
)
from tests.hostagent.virtual_links import SANITIZE

MODELS: dict[PathKind, type[Model]] = {
    PathKind.OBLIVIOUS: Oblivious,
    PathKind.BITMAP: Bitmap,
    PathKind.REPS: Reps,
    PathKind.PLB: Plb,
}
MS = 1_000_000


class Card:
    """A choice of the card's, alone."""

    def __init__(self, kind: PathKind, paths: int = 16, seed: int = 1, **config: int) -> None:
        self.ffi: Any = native(sanitize=SANITIZE).ffi
        self.lib: Any = native(sanitize=SANITIZE).lib
        wanted = self.ffi.new("struct path_config *", {"kind": kind, "paths": paths, **config})
        assert self.lib.path_invalid(wanted) == self.ffi.NULL
        self.state = self.ffi.new("struct path_choice *")
        self.lib.path_begin(self.state, wanted, seed)

    def next(self) -> int:
        return int(self.lib.path_next(self.state))

    def heard(self, ev: int, feedback: int, now: int = 0) -> None:
        self.lib.path_heard(self.state, ev, feedback, now)

    def acked(self, una: int, next_: int, now: int = 0) -> None:
        self.lib.path_acked(self.state, una, next_, now)


STEPS = st.one_of(
    st.just(("next",)),
    st.tuples(
        st.just("heard"),
        st.integers(0, 255),
        st.sampled_from([GOOD, GOOD, GOOD, MARKED, MARKED, LOST, TIMEOUT]),
    ),
    st.tuples(st.just("acked"), st.integers(0, 6), st.integers(0, 6)),
    st.tuples(st.just("wait"), st.sampled_from([1, 1000, 5 * MS, 11 * MS, 200_000 * MS])),
)


@pytest.mark.parametrize("kind", list(MODELS))
@given(
    steps=st.lists(STEPS, max_size=150),
    bits=st.integers(1, 8),
    seed=st.integers(0, 2**64 - 1),
)
@settings(max_examples=150, deadline=None)
def test_it_takes_the_model_s_paths(
    kind: PathKind, steps: list[tuple[Any, ...]], bits: int, seed: int
) -> None:
    paths = 1 << bits
    card, model = Card(kind, paths, seed), MODELS[kind](paths, seed)
    now, una, sent = 0, 1000, 1000
    for step in steps:
        match step:
            case ("next",):
                assert card.next() == model.next()
                sent += 1
            case ("heard", ev, feedback):
                card.heard(ev % paths, feedback, now)
                model.heard(ev % paths, feedback, now)
            case ("acked", behind, more):
                sent += more
                una = max(una, sent - behind)
                card.acked(una, sent, now)
                model.acked(una, sent, now)
            case ("wait", time):
                now += time
    assert [card.next() for _ in range(2 * paths)] == [model.next() for _ in range(2 * paths)]


@pytest.mark.parametrize("kind", [PathKind.OBLIVIOUS, PathKind.BITMAP])
def test_each_round_has_each_path_once_in_another_order(kind: PathKind) -> None:
    card = Card(kind, 64)
    rounds = [[card.next() for _ in range(64)] for _ in range(8)]
    assert all(sorted(each) == list(range(64)) for each in rounds)
    assert len(set(map(tuple, rounds))) > 4


@pytest.mark.parametrize(("feedback", "passes"), [(MARKED, 1), (LOST, 4), (TIMEOUT, 15)])
def test_a_penalty_keeps_packets_off_a_path_for_so_many_rounds(feedback: int, passes: int) -> None:
    card = Card(PathKind.BITMAP, 16)
    card.heard(5, feedback)
    taken = Counter(card.next() for _ in range(15 * passes))
    assert taken[5] == 0
    assert all(taken[ev] >= passes - 1 for ev in range(16) if ev != 5)
    assert 5 in {card.next() for _ in range(32)}


def test_bitmap_goes_on_where_all_paths_have_penalties() -> None:
    card = Card(PathKind.BITMAP, 4)
    for ev in range(4):
        for _ in range(20):
            card.heard(ev, TIMEOUT)
    assert max(card.state.penalty) == 15
    assert {card.next() for _ in range(40)} == {0, 1, 2, 3}


def test_reps_uses_a_good_path_once_and_the_oldest_first() -> None:
    card = Card(PathKind.REPS, 256)
    for ev in (7, 9, 11):
        card.heard(ev, GOOD)
    card.heard(200, MARKED)
    assert [card.next() for _ in range(3)] == [7, 9, 11]
    assert len({card.next() for _ in range(40)}) > 20  # nothing is known: at random


def test_reps_remembers_eight() -> None:
    card = Card(PathKind.REPS, 256)
    for ev in range(100, 112):
        card.heard(ev, GOOD)
    assert [card.next() for _ in range(8)] == list(range(104, 112))


def test_reps_freezes_after_a_time_out_and_explores_when_that_is_over() -> None:
    card = Card(PathKind.REPS, 256)
    for ev in (1, 2, 3):
        card.heard(ev, GOOD)
    card.heard(250, TIMEOUT, 0)
    assert [card.next() for _ in range(7)] == [1, 2, 3, 1, 2, 3, 1]
    card.heard(
        4, GOOD, DEFAULT_PAUSE_NS[PathKind.REPS]
    )  # frozen still, and one more to choose from
    assert card.state.frozen
    assert {card.next() for _ in range(8)} == {1, 2, 3, 4}
    card.heard(5, GOOD, DEFAULT_PAUSE_NS[PathKind.REPS] + 1)
    explored = [card.next() for _ in range(16)]
    assert not card.state.frozen
    assert len(set(explored)) > 8
    assert card.next() == 5


def _rounds(
    card: Card, count: int, *, marked: int, idle: bool, first: int = 1, now: int = 0
) -> int:
    """Let rounds of eight packets pass, of which so many are marked. Returns the next PSN."""
    psn = first
    for _ in range(count):
        for i in range(8):
            card.heard(card.next(), MARKED if i < marked else GOOD, now)
        psn += 8
        card.acked(psn, psn if idle else psn + 8, now)
    return psn


@pytest.mark.parametrize(("idle", "rounds"), [(True, 3), (False, 12)])
def test_plb_moves_after_so_many_marked_rounds(idle: bool, rounds: int) -> None:
    card = Card(PathKind.PLB)
    card.acked(1, 1)
    before = card.next()
    psn = _rounds(card, rounds - 1, marked=4, idle=idle)
    assert card.next() == before
    _rounds(card, 1, marked=4, idle=idle, first=psn)
    assert card.next() != before
    assert card.state.moves == 1


def test_plb_begins_anew_after_a_round_that_was_marked_less_than_by_half() -> None:
    card = Card(PathKind.PLB)
    card.acked(1, 1)
    before, psn = card.next(), 1
    for marked in (8, 8, 3, 8, 8):
        psn = _rounds(card, 1, marked=marked, idle=True, first=psn)
    assert card.next() == before


def test_plb_moves_with_a_time_out_and_then_stays_for_its_suspension() -> None:
    card = Card(PathKind.PLB, pause_ns=MS)
    card.acked(1, 1)
    before = card.next()
    card.heard(before, TIMEOUT, 0)
    after = card.next()
    assert after != before
    psn = _rounds(card, 20, marked=8, idle=True, now=MS - 1)
    assert card.next() == after
    _rounds(card, 3, marked=8, idle=True, first=psn, now=2 * MS)
    assert card.next() != after


@pytest.mark.parametrize(
    ("config", "why"),
    [
        ({"kind": 5, "paths": 16}, "no such choice"),
        ({"kind": 3, "paths": 1}, "power of two"),
        ({"kind": 3, "paths": 96}, "power of two"),
        ({"kind": 3, "paths": 512}, "power of two"),
        ({"kind": 4, "paths": 16, "rounds": 32}, "31 rounds"),
        ({"kind": 4, "paths": 16, "pause_ns": 1 << 61}, "pause"),
    ],
)
def test_what_makes_no_sense_is_refused(config: dict[str, int], why: str) -> None:
    module = native(sanitize=SANITIZE)
    found = module.lib.path_invalid(module.ffi.new("struct path_config *", config))
    assert why in module.ffi.string(found).decode()
