"""Fast CNPs in the kernel and the same header natively: equal state after the same notifications.

Every sequence begins with a fresh state, has parameters of its own (those that sources have at some
rate and time scale, or anything in range) and random notifications. There are a million;
WEFT_FAST_CNP_SEQUENCES asks for another number.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import astuple

import numpy as np
import numpy.typing as npt
import pytest

from hostagent.rnic.native import native
from mechanisms.dcqcn.parameters import MAX_RATE_BPS
from mechanisms.fast_cnp.parameters import fast_cnp_parameters
from tests.hostagent.kernel_replay import STEP, Kernel, Words, replay
from tests.hostagent.native_replay import agreed, header

pytestmark = pytest.mark.root

SEQUENCES = int(os.environ.get("WEFT_FAST_CNP_SEQUENCES", "1000000"))
EVENTS = 11
QUEUES = 10  # more than there is room for
STEPS = EVENTS + 1  # the last asks for the rate


@pytest.fixture(scope="module")
def kernel() -> Iterator[Kernel]:
    with replay("fast_cnp", header("fast_cnp").state_bytes()) as loaded:
        yield loaded


def of_sources(random: np.random.Generator, n: int) -> Words:
    """Rows of struct fast_cnp_params as sources have them, at several rates and time scales."""
    rows = [
        astuple(fast_cnp_parameters(rate * 10**9, scale))
        for rate in (1, 25, 100, 400, 800, 1600)
        for scale in (1, 100, 10_000, 1_000_000)
    ]
    return np.array(rows, np.uint64)[random.integers(0, len(rows), n)]


def anything(random: np.random.Generator, n: int) -> Words:
    """Rows of parameters anywhere in their ranges, each magnitude as likely as any other."""

    def up_to(most: int) -> Words:
        return np.exp(random.uniform(0, np.log(most), n)).astype(np.uint64)

    line = up_to(MAX_RATE_BPS)
    least = np.minimum(up_to(MAX_RATE_BPS), line)
    return np.column_stack((line, least, up_to((1 << 32) - 1), up_to(1 << 32)))


def sequences(random: np.random.Generator, n: int) -> tuple[Words, npt.NDArray[np.void]]:
    """Parameters of `n` sequences, and their steps one behind the other."""
    half = n // 2
    params = np.vstack((of_sources(random, half), anything(random, n - half)))
    steps = np.zeros((n, STEPS), STEP)
    validity = random.integers(0, 16, (n, STEPS))
    # Half of the pauses are of the size of what words stand for, others from ns to minutes.
    gaps = np.exp(random.uniform(0, np.log(10**11), (n, STEPS)))
    own = params[:, 2:3].astype(np.float64) * 2.0**validity
    near = np.minimum(own, 1e13) * random.uniform(0, 3, (n, STEPS))
    pause = np.where(random.random((n, STEPS)) < 0.5, near, gaps).astype(np.uint64)
    steps["now"] = np.cumsum(pause, axis=1) + np.uint64(10**12)
    steps["kind"] = native().lib.CC_NOTIFIED
    steps["number"] = random.integers(0, QUEUES, (n, STEPS))
    steps["rate"] = np.exp(random.uniform(0, np.log(1 << 27), (n, STEPS))) - 1
    steps["validity"] = validity
    steps["asks"][:, -1] = 1
    steps["state"] = np.arange(n, dtype=np.uint32)[:, None]
    return params, steps.reshape(-1)


def test_the_parameters_are_laid_out_as_the_test_thinks() -> None:
    ffi = native().ffi
    names = [field for field, _ in ffi.typeof("struct fast_cnp_params").fields]
    assert ffi.sizeof("struct fast_cnp_params") == 4 * 8
    assert names == ["line_rate", "min_rate", "validity_unit_ns", "rate_unit_q16"]
    assert list(fast_cnp_parameters(10**9).fields()) == names


def test_kernel_and_native_header_agree(kernel: Kernel) -> None:
    limited, grown = 0, 0
    for each in agreed(header("fast_cnp"), kernel, np.random.default_rng(6), SEQUENCES, sequences):
        limited += int((each.rates < each.params[:, 0]).sum())
        grown += int((each.rates > each.states[:, 4]).sum())  # since the last notification
    assert limited > SEQUENCES // 10  # the events did something
    assert grown > SEQUENCES // 20
