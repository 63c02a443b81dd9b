"""The header in the kernel: random sequences there and natively, and the XDP program with it.

Root only; for others the item says that it did not run, and it is no part of full marks.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hostagent import pins as pinned
from hostagent.agent import Agent, AgentError
from hostagent.own_algorithm import Alone, Built, kernel
from hostagent.pinned_maps import MapsError
from labs import LabError
from labs.grade import Detail, Finding, Item
from labs.own_header import found

from .bench import Bench

BEGINS = 10**12
KINDS = (1, 1, 1, 1, 1, 1, 0, 2, 3)
"""enum cc_event_kind: mostly acknowledgements."""
HOPS, HOP_BYTES = 5, 12
MARKED_SEQUENCES, MARKED_EVENTS = 4096, 15
"""Of the grading's item; the lab says its own."""


@dataclass(frozen=True)
class Seen:
    """How many sequences were compared, came to something else, and ended below the line."""

    sequences: int
    different: int
    slowed: int


def compared(built: Built, seed: int, sequences: int, events: int) -> Seen:
    """Compare them and load the program. Raises LabError where the kernel takes neither."""
    try:
        seen = _compared(built, seed, sequences, events)
        _load(built)
    except (AgentError, MapsError, pinned.PinsError) as error:
        raise LabError(str(error)) from None
    return seen


def drawn(random: np.random.Generator) -> dict[str, int]:
    """Draw the parameters of a sender at some rate, distance and time scale."""
    scale = int(random.choice([1, 10, 1000]))
    line = int(random.choice([1, 25, 100, 400, 1600])) * 10**9 // scale
    trip = int(random.integers(2000, 100_000)) * scale
    fields = {"line_rate": line, "min_rate": max(line // 4000, 1)}
    return {**fields, "base_rtt_ns": trip, "time_scale": scale}


def steps_of(
    alone: Alone, random: np.random.Generator, fields: Sequence[dict[str, int]], events: int
) -> tuple[kernel.Steps, kernel.Steps]:
    """Draw events with what switches said; the last step asks for the rate.

    Hops go on sending and counting, with now and then another hop, a pause, or anything at all.
    """
    n = len(fields)
    shape = (events + 1, n)
    trip = np.array([each["base_rtt_ns"] for each in fields], np.float64)
    scale = np.array([each["time_scale"] for each in fields], np.float64)
    line = np.array([each["line_rate"] for each in fields], np.float64) * scale
    gaps = trip * random.uniform(0, 2, shape) * np.where(random.random(shape) < 0.05, 1e4, 1)
    now = BEGINS + np.cumsum(gaps, axis=0)
    steps = np.zeros(shape, kernel.step_type(alone))
    steps["state"] = np.arange(n)
    steps["now"] = now.astype(np.uint64)
    steps["kind"][:-1] = random.choice(KINDS, (events, n))
    steps["bytes"][:-1] = random.integers(0, 1 << 16, (events, n))
    steps["rtt_ns"][:-1] = trip * random.choice([0, 1, 1, 2, 9], (events, n))
    steps["number"][:-1] = random.integers(0, 9, (events, n))
    steps["rate"][:-1] = np.exp(random.uniform(0, np.log(1 << 27), (events, n))) - 1
    steps["validity"][:-1] = random.integers(0, 16, (events, n))
    steps["asks"][-1] = 1
    told = np.zeros(shape, kernel.told_type(alone))
    told["hops"] = random.integers(1, HOPS + 1, n)
    told["bytes"] = told["hops"] * np.uint32(HOP_BYTES)
    told["format"] = np.where(random.random(shape) < 0.9, 1, random.integers(0, 4, shape))
    told["format"] *= steps["kind"] == 1
    fabric = now / scale
    load = random.choice([0.2, 0.9, 1.0], n)
    for i in range(HOPS):
        hop = np.where(random.random(shape) < 0.05, random.integers(0, 1 << 16, shape), 7 + i)
        at = fabric - random.uniform(0, 500, shape) * (random.random(shape) < 0.5)
        sent = np.cumsum(gaps / scale * line / 8e9 * load, axis=0)
        queue = random.choice([0, 0, 8192, 1 << 20], shape) * random.random(shape)
        _write(told["data"], i, (hop, _rate_words(line), at, sent / 64, queue / 512))
    odd = random.random(shape) < 0.03
    told["data"][odd] = random.integers(0, 256, (int(odd.sum()), told["data"].shape[-1]))
    return steps.reshape(-1), told.reshape(-1)


def _rate_words(
    bps: np.ndarray[tuple[int, ...], np.dtype[np.float64]],
) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    units = (bps / 65536).astype(np.int64)
    exponent = np.maximum(np.floor(np.log2(units)).astype(np.int64) - 11, 0)
    return np.asarray(exponent << 12 | units >> exponent)


def _write(data: kernel.Steps, i: int, values: Sequence[object]) -> None:
    at = i * HOP_BYTES
    for value, width in zip(values, (2, 2, 3, 3, 2), strict=True):
        whole = np.asarray(value).astype(np.uint64)
        for byte in range(width):
            data[..., at + byte] = whole >> np.uint64(8 * (width - 1 - byte)) & np.uint64(255)
        at += width


def _compared(built: Built, seed: int, sequences: int, events: int) -> Seen:
    alone = Alone(built)
    random = np.random.default_rng(seed)
    different = slowed = 0
    most = min(kernel.STATES, kernel.STEPS // (events + 1))
    with kernel.in_kernel(built, alone, telemetry=True) as there:
        for first in range(0, sequences, most):
            fields = [drawn(random) for _ in range(min(most, sequences - first))]
            params = alone.params(fields)
            native = alone.fresh(params, BEGINS)
            loaded = native.copy()
            steps, told = steps_of(alone, random, fields, events)
            rates = alone.replayed(steps, native, told)
            said = there.replayed(steps, loaded, told)
            different += int(((native != loaded).any(axis=1) | (rates != said)).sum())
            slowed += int((rates < params[:, 0]).sum())
    return Seen(sequences, different, slowed)


def _load(built: Built) -> None:
    """Load the agent's XDP program with the header in its list: the verifier takes it."""
    pins = Path(f"/sys/fs/bpf/weft-own-cc-{os.getpid()}")
    try:
        Agent.load(pins, include=built.include).close()
    finally:
        pinned.remove(pins)


def judged(bench: Bench) -> Finding:
    """Compare some sequences and load the program; say so where nothing can be loaded."""
    hint = "the kernel's verifier wants loops of a fixed number of turns, and indices in bounds"
    why = kernel.why_not()
    if why:
        return Finding.nothing(f"did not run: {why}", "run it as root: sudo .venv/bin/weft grade")
    try:
        seen = compared(bench.built, bench.seed, MARKED_SEQUENCES, MARKED_EVENTS)
    except LabError as error:
        return Finding.nothing(str(error), hint)
    what = f"{seen.sequences} random sequences, in the kernel and natively: that differ"
    return found([Detail.of(what, 0, seen.different)], hint)


def items() -> Sequence[Item]:
    """Return the one item; it is beyond full marks, since it takes root."""
    expected = "the kernel takes it, and it says the same there"
    return (Item("kernel", "in the kernel (root)", 1, expected, judged, bonus=True),)
