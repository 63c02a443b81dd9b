"""The header in the kernel: random sequences there and natively, and the XDP program with it.

And two cards whose planes the program decides on, in real time. Root only.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from random import Random

import numpy as np

from hostagent import pins as pinned
from hostagent.agent import Agent, AgentError
from hostagent.own_algorithm import Alone, Built, kernel
from hostagent.pinned_maps import MapsError
from labs import LabError

from .kernel_cards import LINE, KernelCards
from .plane import MS, PROBED, US, drawn
from .runs import fields_of

BEGINS = 10**12
LOSSES = 3
"""One soon after the other."""


@dataclass(frozen=True)
class Seen:
    """How many sequences were compared, came to something else, and saw a loss."""

    sequences: int
    different: int
    lost: int
    held_ms: tuple[float, ...]
    """In real time, loss by loss: after how many ms plane 1 was used again."""


def in_the_kernel(built: Built, seed: int, sequences: int, events: int) -> Seen:
    """Compare them and load the program. Raises LabError where the kernel takes neither."""
    alone = Alone(built)
    try:
        different, lost = _compared(built, alone, seed, sequences, events)
        return Seen(sequences, different, lost, _held(built))
    except (AgentError, MapsError, pinned.PinsError) as error:
        raise LabError(str(error)) from None


def steps_of(
    alone: Alone, random: np.random.Generator, sequences: int, events: int
) -> kernel.Steps:
    """Draw answers of probes: mostly in a row, some with news of a loss; the last step asks."""
    shape = (events, sequences)
    gaps = random.choice([US, 200 * US, MS, 10 * MS, 200 * MS], shape)
    now = BEGINS + np.cumsum(gaps, axis=0)
    losses = np.where(random.random(shape) < 0.15, now - random.integers(0, US, shape), 0)
    number = np.cumsum(random.choice([1] * 9 + [2], shape), axis=0)
    steps = np.zeros((events + 1, sequences), kernel.step_type(alone))
    steps["state"] = np.arange(sequences)
    steps["now"][:-1], steps["kind"][:-1], steps["number"][:-1] = now, PROBED, number
    steps["lost_at"][:-1] = np.maximum.accumulate(losses, axis=0)
    steps["now"][-1], steps["asks"][-1] = now[-1] + random.integers(0, MS, sequences), 1
    return steps.reshape(-1)


def _compared(
    built: Built, alone: Alone, seed: int, sequences: int, events: int
) -> tuple[int, int]:
    random, values = np.random.default_rng(seed), Random(seed)
    different = lost = 0
    most = min(kernel.STATES, kernel.STEPS // (events + 1))
    with kernel.in_kernel(built, alone) as there:
        for first in range(0, sequences, most):
            count = min(most, sequences - first)
            params = alone.params(drawn(values) for _ in range(count))
            states = alone.fresh(params, BEGINS)
            steps = steps_of(alone, random, count, events)
            native, loaded = states.copy(), states.copy()
            rates = alone.replayed(steps, native)
            said = there.replayed(steps, loaded)
            different += int(((native != loaded).any(axis=1) | (rates != said)).sum())
            lost += int((native != states).any(axis=1).sum())
    return different, lost


def _held(built: Built) -> tuple[float, ...]:
    """Load the agent's program with the header in the list, and lose a plane some times."""
    pins = Path(f"/sys/fs/bpf/weft-failover-{os.getpid()}")
    try:
        agent = Agent.load(pins, include=built.include)
        try:
            with built.card_in_place():
                cards = KernelCards(agent, pins, fields_of(LINE))
                try:
                    return tuple(cards.lose() for _ in range(LOSSES))
                finally:
                    cards.close()
        finally:
            agent.close()
    finally:
        pinned.remove(pins)
