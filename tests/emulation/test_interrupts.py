"""Signals: the first one interrupts, later ones wait, Ctrl-C can be limited to a block."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator

import pytest

from emulation.interrupts import SIGNALS, Interrupted, handled


@pytest.fixture(autouse=True)
def nothing_ignored() -> Iterator[None]:
    """As in a terminal: under nohup a hang-up is ignored, and `handled` leaves that as it is."""
    before = [(number, signal.signal(number, signal.SIG_DFL)) for number in SIGNALS]
    yield
    for number, handler in before:
        signal.signal(number, handler)


def test_what_was_ignored_stays_so() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with handled() as interrupts:
        signal.raise_signal(signal.SIGHUP)
        interrupts.check()


@pytest.mark.parametrize("number", SIGNALS, ids=lambda number: number.name)
def test_a_signal_interrupts_once(number: signal.Signals) -> None:
    with handled() as interrupts:
        with pytest.raises(Interrupted) as raised:
            signal.raise_signal(number)
        assert raised.value.number == number
        signal.raise_signal(number)  # the second one is ignored
        with pytest.raises(Interrupted):
            interrupts.check()


def test_nothing_interrupts_the_clean_up() -> None:
    with handled() as interrupts:
        interrupts.close()
        for number in SIGNALS:
            signal.raise_signal(number)
        interrupts.check()


def test_an_exception_that_python_swallowed_is_raised_at_the_next_step(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    swallowed: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda args: swallowed.append(args.exc_type))

    class Swallows:
        def __del__(self) -> None:
            signal.raise_signal(signal.SIGINT)

    with handled() as interrupts:
        victim = Swallows()
        del victim
        assert swallowed == [Interrupted]
        with pytest.raises(Interrupted):
            interrupts.check()


@pytest.mark.parametrize(
    ("number", "ends_the_run"), [(signal.SIGINT, False), (signal.SIGTERM, True)]
)
def test_ctrl_c_can_cancel_one_command(number: int, ends_the_run: bool) -> None:
    with handled() as interrupts:
        with pytest.raises(Interrupted), interrupts.cancelling():
            signal.raise_signal(number)
        if ends_the_run:
            with pytest.raises(Interrupted):
                interrupts.check()
        else:
            interrupts.check()


def test_handlers_are_put_back() -> None:
    before = [signal.getsignal(number) for number in SIGNALS]
    with handled():
        assert signal.getsignal(signal.SIGTERM) is not before[1]
    assert [signal.getsignal(number) for number in SIGNALS] == before
