"""From a round that shows a difference to the few packets and entries that are enough for it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from compat.parity.cases import Packet, Round

T = TypeVar("T")

Check = Callable[[Round], bool]
"""Whether a round still shows the difference."""


class _Budget:
    """A number of checks and a time, so that minimising on a slow target ends too."""

    def __init__(self, check: Check, checks: int, seconds: float) -> None:
        self._check = check
        self._left = checks
        self._until = time.monotonic() + seconds

    def holds(self, round_: Round) -> bool:
        """Return the result of `check`, or False when the budget is spent."""
        if self._left <= 0 or time.monotonic() > self._until:
            return False
        self._left -= 1
        return self._check(round_)


def minimise(round_: Round, number: int, check: Check, checks: int, seconds: float) -> Round:
    """Return the smallest round found that still shows what packet `number` showed.

    At most so many checks and seconds are spent. The given round must show it.
    """
    budget = _Budget(check, checks, seconds)
    # What comes after the packet has no part in it; often nor has what comes before.
    shown = round_.packets[: number + 1]
    for packets in (shown[-1:], shown):
        if budget.holds(replace(round_, packets=packets)):
            round_ = replace(round_, packets=packets)
            break
    round_ = replace(
        round_, packets=_fewer(round_.packets, lambda p: budget.holds(replace(round_, packets=p)))
    )
    kept = round_
    round_ = replace(
        round_, setup=_fewer(round_.setup, lambda s: budget.holds(replace(kept, setup=s)))
    )
    for index in range(len(round_.packets)):
        round_ = _shorter(round_, index, budget)
        round_ = _plainer(round_, index, budget)
    return round_


def _fewer(items: tuple[T, ...], holds: Callable[[tuple[T, ...]], bool]) -> tuple[T, ...]:
    """Leave out halves, then quarters and so on, as long as it holds."""
    size = len(items)
    while size >= 1 and items:
        size = min(size, len(items))
        start = 0
        while start < len(items):
            shorter = (*items[:start], *items[start + size :])
            if holds(shorter):
                items = shorter
            else:
                start += size
        size //= 2
    return items


def _shorter(round_: Round, index: int, budget: _Budget) -> Round:
    """Cut the packet's end off, in ever smaller steps."""
    step = len(round_.packets[index].data) // 2
    while step:
        data = round_.packets[index].data
        candidate = _with(round_, index, data[:-step])
        if len(data) - step >= 14 and budget.holds(candidate):
            round_ = candidate
        else:
            step //= 2
    return round_


def _plainer(round_: Round, index: int, budget: _Budget) -> Round:
    """Make bytes 0, in runs of ever fewer."""
    size = max(1, len(round_.packets[index].data) // 2)
    while size:
        for start in range(0, len(round_.packets[index].data), size):
            data = round_.packets[index].data
            zeros = bytes(min(size, len(data) - start))
            plain = data[:start] + zeros + data[start + size :]
            if plain != data and budget.holds(_with(round_, index, plain)):
                round_ = _with(round_, index, plain)
        size //= 2
    return round_


def _with(round_: Round, index: int, data: bytes) -> Round:
    packets: Sequence[Packet] = round_.packets
    changed = replace(packets[index], data=data)
    return replace(round_, packets=(*packets[:index], changed, *packets[index + 1 :]))
