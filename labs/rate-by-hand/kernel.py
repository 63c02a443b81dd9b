"""The header in the kernel: random sequences there and natively, and the XDP program with it.

Root only.
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

from .source import MS, NOTIFIED, US, drawn

BEGINS = 10**12
QUEUES = 10
"""More than there are places."""


@dataclass(frozen=True)
class Seen:
    """How many sequences were compared, came to something else, and ended below the line."""

    sequences: int
    different: int
    slowed: int


def in_the_kernel(built: Built, seed: int, sequences: int, events: int) -> Seen:
    """Compare them and load the program. Raises LabError where the kernel takes neither."""
    try:
        seen = _compared(built, seed, sequences, events)
        _load(built)
    except (AgentError, MapsError, pinned.PinsError) as error:
        raise LabError(str(error)) from None
    return seen


def steps_of(
    alone: Alone, random: np.random.Generator, sequences: int, events: int
) -> kernel.Steps:
    """Draw words of several queues; the last step asks for the rate."""
    shape = (events, sequences)
    gaps = random.choice([1, US, 20 * US, 200 * US, 2 * MS, 200 * MS], shape)
    now = BEGINS + np.cumsum(gaps, axis=0)
    steps = np.zeros((events + 1, sequences), kernel.step_type(alone))
    steps["state"] = np.arange(sequences)
    steps["now"][:-1], steps["kind"][:-1] = now, NOTIFIED
    steps["number"][:-1] = random.integers(0, QUEUES, shape)
    steps["rate"][:-1] = np.exp(random.uniform(0, np.log(1 << 27), shape)) - 1
    steps["validity"][:-1] = random.integers(0, 16, shape)
    steps["now"][-1], steps["asks"][-1] = now[-1] + random.integers(0, 20 * MS, sequences), 1
    return steps.reshape(-1)


def _compared(built: Built, seed: int, sequences: int, events: int) -> Seen:
    alone = Alone(built)
    random, values = np.random.default_rng(seed), Random(seed)
    different = slowed = 0
    most = min(kernel.STATES, kernel.STEPS // (events + 1))
    with kernel.in_kernel(built, alone) as there:
        for first in range(0, sequences, most):
            count = min(most, sequences - first)
            params = alone.params(drawn(values) for _ in range(count))
            native = alone.fresh(params, BEGINS)
            loaded = native.copy()
            steps = steps_of(alone, random, count, events)
            rates = alone.replayed(steps, native)
            said = there.replayed(steps, loaded)
            different += int(((native != loaded).any(axis=1) | (rates != said)).sum())
            slowed += int((rates < params[:, 0]).sum())
    return Seen(sequences, different, slowed)


def _load(built: Built) -> None:
    """Load the agent's XDP program with the header in its list: the verifier takes it."""
    pins = Path(f"/sys/fs/bpf/weft-rate-{os.getpid()}")
    try:
        Agent.load(pins, include=built.include).close()
    finally:
        pinned.remove(pins)
