"""ENCC in the kernel and the same header natively: equal state after the same telemetry.

Every sequence begins with a fresh state, has parameters of its own (those that senders have at some
rate and time scale, or anything in range) and random records, some of them of ports that go on,
others of anything. There are a hundred thousand, and in `make test-long` a million;
WEFT_ENCC_SEQUENCES asks for another number there.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pytest

from hostagent.rnic.native import native
from mechanisms.encc.parameters import MAX_RATE_BPS, encc_parameters
from tests.hostagent.hop_words import up_to, walked
from tests.hostagent.kernel_replay import TELEMETRY, Kernel, Words, replay
from tests.hostagent.native_replay import agreed, header

pytestmark = pytest.mark.root

SOME, MANY = 100_000, int(os.environ.get("WEFT_ENCC_SEQUENCES", "1000000"))
USED, CUT, HALVINGS, STAGE = 10, 16, 18, 19  # words of struct encc
LOW = np.uint64(0xFFFFFFFF)


@pytest.fixture(scope="module")
def kernel() -> Iterator[Kernel]:
    with replay("encc", header("encc").state_bytes(), telemetry=True) as loaded:
        yield loaded


def of_senders(random: np.random.Generator, n: int) -> Words:
    """Rows of struct encc_params as senders have them, at several rates and time scales."""
    rows = header("encc").params(
        {**encc_parameters(rate * 10**9, trip).with_time_scale(scale).fields(), "max_stage": stage}
        for rate in (1, 25, 100, 400, 800, 1600)
        for trip in (4000, 13_000, 10**6)
        for scale in (1, 100, 10_000)
        for stage in (0, 5)
    )
    return rows[random.integers(0, len(rows), n)]


def anything(random: np.random.Generator, n: int) -> Words:
    """Rows of parameters anywhere in their ranges, each magnitude as likely as any other."""
    line = up_to(random, MAX_RATE_BPS, n)
    least = np.minimum(up_to(random, MAX_RATE_BPS, n), line)
    trip = up_to(random, (1 << 34) - 1, n)
    scale = np.maximum(up_to(random, 1 << 20, n), trip >> np.uint64(30)) + np.uint64(1)
    scale = np.minimum(scale, trip)
    trip = np.minimum(trip, scale << np.uint64(30))
    eta = up_to(random, 131072, n)
    stages = random.integers(0, 4, n).astype(np.uint64)
    increase = up_to(random, MAX_RATE_BPS, n)
    by_root = random.integers(0, 2, n).astype(np.uint64) << np.uint64(32)
    free = up_to(random, (1 << 32) - 1, n)
    columns = (line, least, increase, trip, eta | stages << np.uint64(32), scale | by_root, free)
    return np.column_stack(columns)


def sequences(
    random: np.random.Generator, n: int
) -> tuple[Words, npt.NDArray[np.void], npt.NDArray[np.void]]:
    """Parameters of `n` sequences, their steps one behind the other, and what these are told."""
    half = n // 2
    params = np.vstack((of_senders(random, half), anything(random, n - half)))
    scale = params[:, 5] & np.uint64(0xFFFFFFFF)
    return params, *walked(random, params[:, 3], scale)


def test_the_parameters_are_laid_out_as_the_test_thinks() -> None:
    ffi = native().ffi
    fields = dict(ffi.typeof("struct encc_params").fields)
    assert list(fields)[:9] == [
        "line_rate", "min_rate", "rate_ai", "base_rtt_ns", "eta_q16", "max_stage", "time_scale",
        "by_root", "queue_free",
    ]  # fmt: skip
    assert ffi.sizeof("struct encc_params") == 7 * 8
    for name, word in (("used", USED), ("cut_q10", CUT), ("halvings", HALVINGS), ("stage", STAGE)):
        assert ffi.offsetof("struct encc", name) == 8 * word
    assert ffi.sizeof("struct cc_telemetry") == TELEMETRY.itemsize


@pytest.mark.parametrize("total", [SOME, pytest.param(MANY, marks=pytest.mark.long)])
def test_kernel_and_native_header_agree(kernel: Kernel, total: int) -> None:
    limited = loaded = full = begun = stages = cuts = halved = 0
    for each in agreed(header("encc"), kernel, np.random.default_rng(22), total, sequences):
        line, states = each.params[:, 0], each.states
        used = states[:, USED]
        limited += int((each.rates < line).sum())
        loaded += int(((used > 1 << 24) & (used < 1 << 28)).sum())
        full += int((used == 64 << 26).sum())
        stages += int(((states[:, STAGE] & LOW) > 0).sum())
        cuts += int((states[:, CUT] > 0).sum())
        halved += int(((states[:, HALVINGS] & LOW) > 0).sum())
        begun += int((states[:, HALVINGS] >> np.uint64(32)).sum())
    # The events did something, and all kinds of it.
    assert begun > 0.8 * total and limited > total // 4
    assert loaded > total // 10 and full > total // 50
    assert min(stages, cuts, halved) > total // 200, (stages, cuts, halved)
