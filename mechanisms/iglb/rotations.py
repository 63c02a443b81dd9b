"""Phases in time: how far jobs should start apart, so that their bursts meet least on links.

Jobs that repeat iterations lie on a circle as long as the least common multiple of their periods
(CASSINI, NSDI 2024). On it each is turned, one after the other, to where least of what links are
asked for is beyond their rate; then again, until no turn of one job helps. For two jobs that is the
best there is, for more a local optimum.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import lcm

import numpy as np

from mechanisms.iglb.fabric import Floats, Ints

MOST_STEPS = 1 << 16
"""Of a circle. Longer ones come from periods that hardly meet: round them, or take longer steps."""
ROUNDS = 16


def rotations(loads: Sequence[Floats]) -> Ints:
    """Return how many steps of time each job starts late; the first starts at 0.

    `loads[job]`: links x steps of the job's period, as shares of the links' rates; all jobs have
    the same links. Raises ValueError where links differ or the circle is too long.
    """
    if len({load.shape[0] for load in loads}) > 1:
        raise ValueError("jobs have different links; one row each, of all links, please")
    periods = [load.shape[1] for load in loads]
    circle = lcm(*periods) if periods else 0
    if circle > MOST_STEPS:
        raise ValueError(
            f"periods of {', '.join(map(str, periods))} steps meet after {circle}; "
            f"at most {MOST_STEPS} are taken: round the periods, or take longer steps"
        )
    around = [np.tile(load, circle // load.shape[1]) for load in loads]
    late = np.zeros(len(loads), dtype=np.int64)
    placed = around[0].copy() if around else np.empty((0, 0))
    for job in range(1, len(loads)):
        late[job] = _best(placed, around[job], periods[job], 0)
        placed += np.roll(around[job], late[job], axis=1)
    for _ in range(ROUNDS):
        before = late.copy()
        for job in range(1, len(loads)):
            rest = placed - np.roll(around[job], late[job], axis=1)
            late[job] = _best(rest, around[job], periods[job], int(late[job]))
            placed = rest + np.roll(around[job], late[job], axis=1)
        if (late == before).all():
            break
    return late


def beyond(loads: Sequence[Floats], late: Ints) -> float:
    """Return what links are asked for beyond their rate, over a circle, in links times steps."""
    circle = lcm(*(load.shape[1] for load in loads))
    turned = (
        np.roll(np.tile(load, circle // load.shape[1]), by, axis=1)
        for load, by in zip(loads, late.tolist(), strict=True)
    )
    return float(np.maximum(sum(turned) - 1.0, 0.0).sum())


def _best(rest: Floats, own: Floats, period: int, now: int) -> int:
    """Return the turn at which least is beyond the links' rates: `now` if no other is better."""
    used = np.flatnonzero(own.any(axis=1))
    rest, own = rest[used], own[used]
    turns = [now, *(turn for turn in range(period) if turn != now)]
    over = [np.maximum(rest + np.roll(own, turn, axis=1) - 1.0, 0.0).sum() for turn in turns]
    least = min(over)
    return next(t for t, o in zip(turns, over, strict=True) if o <= least + 1e-9 * (1 + least))
