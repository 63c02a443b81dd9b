"""Swift in the kernel and the same header natively: equal state after the same round trips.

Every sequence begins with a fresh state and has parameters of its own (those that senders have at
some rate and time scale, or anything in range). There are a hundred thousand, and in `make
test-long` a million; WEFT_SWIFT_SEQUENCES asks for another number there.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pytest

from hostagent.rnic.native import native
from mechanisms.swift.parameters import MAX_RATE_BPS, swift_parameters
from tests.hostagent.hop_words import STEPS, up_to
from tests.hostagent.kernel_replay import STEP, Kernel, Words, replay
from tests.hostagent.native_replay import agreed, header

pytestmark = pytest.mark.root

SOME, MANY = 100_000, int(os.environ.get("WEFT_SWIFT_SEQUENCES", "1000000"))
TIME_MOST = (1 << 40) - 1
WINDOW, DECREASED = 13, 17  # words of struct swift


@pytest.fixture(scope="module")
def kernel() -> Iterator[Kernel]:
    with replay("swift", header("swift").state_bytes()) as loaded:
        yield loaded


def of_senders(random: np.random.Generator, n: int) -> Words:
    """Rows of struct swift_params as senders have them, at several rates and time scales."""
    rows = header("swift").params(
        swift_parameters(rate * 10**9).in_fabric(trip, hops, 4096).with_time_scale(scale).fields()
        for rate in (1, 25, 100, 400, 800, 1600)
        for trip in (4000, 13_000, 10**6)
        for hops in (1, 5)
        for scale in (1, 100, 10_000)
    )
    return rows[random.integers(0, len(rows), n)]


def anything(random: np.random.Generator, n: int) -> Words:
    """Rows of parameters anywhere in their ranges, each magnitude as likely as any other."""
    high = np.uint64(32)
    line = up_to(random, MAX_RATE_BPS, n)
    least_rate = np.minimum(up_to(random, MAX_RATE_BPS, n), line)
    times = [up_to(random, TIME_MOST, n) for _ in range(5)]
    windows = np.sort(up_to(random, 1 << 34, (n, 3)), axis=1)
    least = np.minimum(windows[:, 0], np.uint64((1 << 32) - 1))
    packet = up_to(random, 8192, n)
    factors = up_to(random, 1 << 20, n) | up_to(random, 65536, n) << high
    mdf = (random.integers(0, 65536, n) | random.integers(0, 2, n) << 32).astype(np.uint64)
    ends = (windows[:, 1], windows[:, 2], least | packet << high, factors, mdf)
    return np.column_stack((line, least_rate, *times, *ends))


def sequences(random: np.random.Generator, n: int) -> tuple[Words, npt.NDArray[np.void]]:
    """Parameters of `n` sequences, and their steps one behind the other."""
    half = n // 2
    params = np.vstack((of_senders(random, half), anything(random, n - half)))
    shape = (n, STEPS)
    steps = np.zeros(shape, STEP)
    target = params[:, 2][:, None].astype(np.float64)
    pauses = np.where(
        random.random(shape) < 0.8,
        target * random.uniform(0, 2, shape),
        up_to(random, 10**11, shape),
    )
    steps["now"] = np.cumsum(pauses.astype(np.uint64), axis=1) + np.uint64(10**12)
    steps["kind"] = native().lib.CC_ACKED
    steps["bytes"] = np.where(random.random(shape) < 0.9, 4096, up_to(random, 1 << 62, shape))
    about = target * random.choice([0.7, 1, 1.5, 5, 30], (n, 1)) * random.uniform(0.7, 1.5, shape)
    rtt = np.where(
        random.random(shape) < 0.9, about.astype(np.uint64), up_to(random, 1 << 62, shape)
    )
    steps["rtt_ns"] = np.where(random.random(shape) < 0.9, rtt, 0)
    steps["asks"][:, -1] = 1
    steps["state"] = np.arange(n, dtype=np.uint32)[:, None]
    return params, steps.reshape(-1)


def test_the_parameters_are_laid_out_as_the_test_thinks() -> None:
    ffi = native().ffi
    fields = dict(ffi.typeof("struct swift_params").fields)
    assert list(fields)[:15] == [
        "line_rate", "min_rate", "base_rtt_ns", "hops_ns", "fs_alpha_ns", "fs_offset_ns",
        "fs_range_ns", "first_q16", "most_q16", "least_q16", "packet_bytes", "ai_q16", "beta_q16",
        "max_mdf_q16", "own_base",
    ]  # fmt: skip
    assert ffi.sizeof("struct swift_params") == 12 * 8
    assert ffi.offsetof("struct swift", "window_q16") == 8 * WINDOW
    assert ffi.offsetof("struct swift", "has_decreased") == 8 * DECREASED


@pytest.mark.parametrize("total", [SOME, pytest.param(MANY, marks=pytest.mark.long)])
def test_kernel_and_native_header_agree(kernel: Kernel, total: int) -> None:
    grown = cut = below = paced = 0
    for each in agreed(header("swift"), kernel, np.random.default_rng(24), total, sequences):
        first, window = each.params[:, 7], each.states[:, WINDOW]
        grown += int((window > first).sum())
        cut += int((each.states[:, DECREASED] & np.uint64(1)).sum())
        below += int((window < 65536).sum())
        paced += int((each.rates < each.params[:, 0]).sum())
        assert (window <= each.params[:, 8]).all()
    # The events did something, and all kinds of it.
    assert grown > total // 20 and cut > total // 4
    assert below > total // 20 and paced > total // 40
