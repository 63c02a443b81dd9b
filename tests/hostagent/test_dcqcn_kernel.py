"""DCQCN in the kernel and the same header natively: equal state after the same events.

Every sequence begins with a fresh state, has parameters of its own (a published set at some rate
and time scale, or anything in range) and random events: CNPs, acknowledgements and pauses from
nanoseconds to minutes. There are a million; WEFT_DCQCN_SEQUENCES asks for another number.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pytest

from hostagent.rnic.native import native
from mechanisms.dcqcn.parameters import MAX_RATE_BPS, SETS, parameters
from tests.hostagent.kernel_replay import STEP, Kernel, Words, replay
from tests.hostagent.native_replay import agreed, header

pytestmark = pytest.mark.root

SEQUENCES = int(os.environ.get("WEFT_DCQCN_SEQUENCES", "1000000"))
EVENTS = 15
STEPS = EVENTS + 1  # the last asks for the rate
PARAMETERS = ["line", "minimum", "ai", "hai", "alpha", "increase", "bytes", "cut"]


@pytest.fixture(scope="module")
def kernel() -> Iterator[Kernel]:
    with replay("dcqcn", header("dcqcn").state_bytes()) as loaded:
        yield loaded


def published(random: np.random.Generator, n: int) -> Words:
    """Rows of struct dcqcn_params of shipped sets, at several rates and time scales."""
    pool = [
        parameters(name, rate * 10**9, scale)
        for name in SETS
        for rate in (1, 25, 100, 400, 800, 1600)
        for scale in (1, 100, 10_000, 1_000_000)
    ]
    rows = np.array(
        [
            [
                each.line_rate_bps, each.min_rate_bps, each.rate_ai_bps, each.rate_hai_bps,
                each.alpha_timer_ns, each.increase_timer_ns, each.byte_counter,
                each.cut_interval_ns, each.fast_recovery | each.gain_q16 << 32,
                each.clamp_target_rate,
            ]
            for each in pool
        ],
        dtype=np.uint64,
    )  # fmt: skip
    return rows[random.integers(0, len(rows), n)]


def anything(random: np.random.Generator, n: int) -> Words:
    """Rows of parameters anywhere in their ranges, each magnitude as likely as any other."""

    def up_to(most: int) -> Words:
        return np.exp(random.uniform(0, np.log(most), n)).astype(np.uint64)

    line = up_to(MAX_RATE_BPS)
    gain = random.integers(1, 65537, n).astype(np.uint64)
    recovery = random.integers(0, 8, n).astype(np.uint64)
    counter = up_to(1 << 40) * random.integers(0, 2, n).astype(np.uint64)
    cut = up_to(1 << 30) * random.integers(0, 2, n).astype(np.uint64)
    timers = (up_to(1 << 40), up_to(1 << 40))
    least = np.minimum(up_to(MAX_RATE_BPS), line)
    columns = (line, least, up_to(1 << 41), up_to(1 << 41), *timers, counter, cut)
    clamp = random.integers(0, 2, n).astype(np.uint64)
    return np.column_stack((*columns, recovery | gain << np.uint64(32), clamp))


def sequences(random: np.random.Generator, n: int) -> tuple[Words, npt.NDArray[np.void]]:
    """Parameters of `n` sequences, and their steps one behind the other."""
    half = n // 2
    params = np.vstack((published(random, half), anything(random, n - half)))
    steps = np.zeros((n, STEPS), STEP)
    gaps = np.exp(random.uniform(0, np.log(10**11), (n, STEPS))).astype(np.uint64)
    # Half of the sequences live around their own timers.
    near = random.random((n, STEPS)) < 0.5
    timer = np.minimum(params[:, 4:6].max(axis=1), np.uint64(10**11))[:, None]
    own = (timer.astype(np.float64) * random.uniform(0, 4, (n, STEPS))).astype(np.uint64)
    steps["now"] = np.cumsum(np.where(near, own, gaps), axis=1) + np.uint64(10**12)
    steps["kind"] = random.choice([0, 0, 1, 1, 2], (n, STEPS))
    steps["bytes"] = np.exp(random.uniform(0, np.log(1 << 36), (n, STEPS))).astype(np.uint64)
    steps["asks"][:, -1] = 1
    steps["state"] = np.arange(n, dtype=np.uint32)[:, None]
    return params, steps.reshape(-1)


def test_the_parameters_are_laid_out_as_the_test_thinks() -> None:
    ffi = native().ffi
    names = [field for field, _ in ffi.typeof("struct dcqcn_params").fields]
    assert ffi.sizeof("struct dcqcn_params") == 10 * 8
    assert names[:8] == [
        "line_rate", "min_rate", "rate_ai", "rate_hai",
        "alpha_timer_ns", "increase_timer_ns", "byte_counter", "cut_interval_ns",
    ]  # fmt: skip
    assert ffi.offsetof("struct dcqcn_params", "gain_q16") == 68
    assert ffi.offsetof("struct dcqcn_params", "clamp_target_rate") == 72
    assert ffi.sizeof("struct cc_step") == STEP.itemsize


def test_kernel_and_native_header_agree(kernel: Kernel) -> None:
    limited = 0
    for each in agreed(header("dcqcn"), kernel, np.random.default_rng(20), SEQUENCES, sequences):
        limited += int((each.rates < each.params[:, 0]).sum())
    assert limited > SEQUENCES // 10  # the events did something
