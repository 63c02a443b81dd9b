"""Bolt in the kernel and the same header natively: equal state after the same events.

Every sequence begins with a fresh state and has parameters of its own (those that senders have at
some rate and time scale, or anything in range). There are a hundred thousand, and in `make
test-long` a million; WEFT_BOLT_SEQUENCES asks for another number there.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest

from hostagent.rnic.native import native
from mechanisms.bolt.parameters import MAX_RATE_BPS, bolt_parameters
from protocols.grants import GRANTS_FORMAT, LAST, MORE, QUEUED
from tests.hostagent.hop_words import STEPS, up_to
from tests.hostagent.kernel_replay import STEP, TELEMETRY, Kernel, Words, replay
from tests.hostagent.native_replay import agreed, header

pytestmark = pytest.mark.root

SOME, MANY = 100_000, int(os.environ.get("WEFT_BOLT_SEQUENCES", "1000000"))
TIME_MOST = (1 << 40) - 1
WORDS = 8
"""Of struct bolt_params."""
RATE, WINDOW, DECREASED = WORDS, WORDS + 1, WORDS + 6


@pytest.fixture(scope="module")
def kernel() -> Iterator[Kernel]:
    with replay("bolt", header("bolt").state_bytes(), telemetry=True) as loaded:
        yield loaded


def of_senders(random: np.random.Generator, n: int) -> Words:
    """Rows of struct bolt_params as senders have them, at several rates and time scales."""
    rows = header("bolt").params(
        replace(
            bolt_parameters(rate * 10**9).in_fabric(trip, 4096).with_time_scale(scale),
            whole_steps=whole,
        ).fields()
        for rate in (1, 25, 100, 400, 1600)
        for trip in (4000, 13_000, 10**6)
        for scale in (1, 100, 10_000)
        for whole in (False, True)
    )
    return rows[random.integers(0, len(rows), n)]


def anything(random: np.random.Generator, n: int) -> Words:
    """Rows of parameters anywhere in their ranges, each magnitude as likely as any other."""
    high = np.uint64(32)
    line = up_to(random, MAX_RATE_BPS, n)
    least_rate = np.minimum(up_to(random, MAX_RATE_BPS, n), line)
    windows = np.sort(up_to(random, 1 << 34, (n, 3)), axis=1)
    least = np.minimum(windows[:, 0], np.uint64((1 << 32) - 1))
    sizes = least | up_to(random, 8192, n) << high
    factors = up_to(random, 1 << 20, n) | (up_to(random, 65536, n) - np.uint64(1)) << high
    last = up_to(random, 1 << 20, n) | random.integers(0, 2, n).astype(np.uint64) << high
    base = up_to(random, TIME_MOST, n)
    return np.column_stack(
        (line, least_rate, base, windows[:, 1], windows[:, 2], sizes, factors, last)
    )


def sequences(
    random: np.random.Generator, n: int
) -> tuple[Words, npt.NDArray[np.void], npt.NDArray[np.void]]:
    """Parameters of `n` sequences, their steps one behind the other, and what comes with each."""
    half = n // 2
    params = np.vstack((of_senders(random, half), anything(random, n - half)))
    shape = (n, STEPS)
    steps, told = np.zeros(shape, STEP), np.zeros(shape, TELEMETRY)
    trip = params[:, 2][:, None].astype(np.float64)
    near = trip * random.uniform(0, 1, shape)
    pauses = np.where(random.random(shape) < 0.8, near, up_to(random, 10**11, shape))
    steps["now"] = np.cumsum(pauses.astype(np.uint64), axis=1) + np.uint64(10**12)
    queued = random.random(shape) < 0.5
    lib = native().lib
    steps["kind"] = np.where(queued, lib.CC_QUEUED, lib.CC_ACKED)
    size = np.where(random.random(shape) < 0.9, 4096, up_to(random, 1 << 62, shape))
    steps["bytes"] = np.where(queued, 0, size)
    about = (trip * random.uniform(0.3, 5, shape)).astype(np.uint64)
    rtt = np.where(random.random(shape) < 0.9, about, up_to(random, 1 << 62, shape))
    steps["rtt_ns"] = np.where(random.random(shape) < 0.9, rtt, 0)
    usual = random.random(shape) < 0.9
    drains = np.where(usual, up_to(random, 1 << 20, shape), up_to(random, 1 << 62, shape))
    steps["drains_ns"] = np.where(queued, drains, 0)
    steps["asks"][:, -1] = 1
    steps["state"] = np.arange(n, dtype=np.uint32)[:, None]
    brings = ~queued & (random.random(shape) < 0.7)
    told["format"] = np.where(brings, random.choice([1, GRANTS_FORMAT, GRANTS_FORMAT], shape), 0)
    told["bytes"] = np.where(brings, random.choice([0, 4, 4, 4], shape), 0)
    told["data"][:, :, 0] = random.choice([MORE, MORE, MORE | QUEUED, LAST, 0], shape)
    return params, steps.reshape(-1), told.reshape(-1)


def test_the_parameters_are_laid_out_as_the_test_thinks() -> None:
    ffi = native().ffi
    assert [name for name, _ in ffi.typeof("struct bolt_params").fields][:10] == [
        "line_rate", "min_rate", "base_rtt_ns", "first_q16", "most_q16", "least_q16",
        "packet_bytes", "ai_q16", "max_mdf_q16", "time_scale",
    ]  # fmt: skip
    assert ffi.sizeof("struct bolt_params") == 8 * WORDS
    assert ffi.offsetof("struct bolt", "window_q16") == 8 * WINDOW
    assert ffi.offsetof("struct bolt", "has_decreased") == 8 * DECREASED


@pytest.mark.parametrize("total", [SOME, pytest.param(MANY, marks=pytest.mark.long)])
def test_kernel_and_native_header_agree(kernel: Kernel, total: int) -> None:
    grown = cut = below = paced = 0
    for each in agreed(header("bolt"), kernel, np.random.default_rng(27), total, sequences):
        first, window = each.params[:, 3], each.states[:, WINDOW]
        grown += int((window > first).sum())
        cut += int((each.states[:, DECREASED] & np.uint64(1)).sum())
        below += int((window < 65536).sum())
        paced += int((each.rates < each.params[:, 0]).sum())
        assert (window <= each.params[:, 4]).all()
    # The events did something, and all kinds of it.
    assert grown > total // 20 and cut > total // 4
    assert below > total // 20 and paced > total // 40
