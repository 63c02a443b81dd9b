"""PowerTCP in the kernel and the same header natively: equal state after the same telemetry.

Every sequence begins with a fresh state, has parameters of its own (those that senders have at some
rate and time scale, or anything in range) and random records, some of them of ports that go on,
others of anything. There are a hundred thousand, and in `make test-long` a million;
WEFT_POWERTCP_SEQUENCES asks for another number there.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pytest

from hostagent.rnic.native import native
from mechanisms.powertcp.parameters import MAX_RATE_BPS, powertcp_parameters
from tests.hostagent.hop_words import up_to, walked
from tests.hostagent.kernel_replay import TELEMETRY, Kernel, Words, replay
from tests.hostagent.native_replay import agreed, header

pytestmark = pytest.mark.root

SOME, MANY = 100_000, int(os.environ.get("WEFT_POWERTCP_SEQUENCES", "1000000"))
REFERENCE, POWER, BEGUN = 7, 9, 12  # words of struct powertcp


@pytest.fixture(scope="module")
def kernel() -> Iterator[Kernel]:
    with replay("powertcp", header("powertcp").state_bytes(), telemetry=True) as loaded:
        yield loaded


def of_senders(random: np.random.Generator, n: int) -> Words:
    """Rows of struct powertcp_params as senders have them, at several rates and time scales."""
    rows = header("powertcp").params(
        powertcp_parameters(rate * 10**9, trip).with_time_scale(scale).fields()
        for rate in (1, 25, 100, 400, 800, 1600)
        for trip in (4000, 13_000, 10**6)
        for scale in (1, 100, 10_000)
    )
    return rows[random.integers(0, len(rows), n)]


def anything(random: np.random.Generator, n: int) -> Words:
    """Rows of parameters anywhere in their ranges, each magnitude as likely as any other."""
    line = up_to(random, MAX_RATE_BPS, n)
    least = np.minimum(up_to(random, MAX_RATE_BPS, n), line)
    increase = up_to(random, MAX_RATE_BPS, n)
    trip = up_to(random, (1 << 34) - 1, n)
    scale = np.maximum(up_to(random, 1 << 20, n), trip >> np.uint64(31)) + np.uint64(1)
    scale = np.minimum(scale, trip)
    trip = np.minimum(trip, scale << np.uint64(31))
    eta = up_to(random, 131072, n)
    gamma = up_to(random, 65536, n)
    return np.column_stack((line, least, increase, trip, eta | gamma << np.uint64(32), scale))


def sequences(
    random: np.random.Generator, n: int
) -> tuple[Words, npt.NDArray[np.void], npt.NDArray[np.void]]:
    """Parameters of `n` sequences, their steps one behind the other, and what these are told."""
    half = n // 2
    params = np.vstack((of_senders(random, half), anything(random, n - half)))
    return params, *walked(random, params[:, 3], params[:, 5])


def test_the_parameters_are_laid_out_as_the_test_thinks() -> None:
    ffi = native().ffi
    fields = dict(ffi.typeof("struct powertcp_params").fields)
    assert list(fields)[:7] == [
        "line_rate", "min_rate", "rate_ai", "base_rtt_ns", "eta_q16", "gamma_q16", "time_scale",
    ]  # fmt: skip
    assert ffi.sizeof("struct powertcp_params") == 6 * 8
    assert ffi.offsetof("struct powertcp", "reference") == 8 * REFERENCE
    assert ffi.offsetof("struct powertcp", "power") == 8 * POWER
    assert ffi.offsetof("struct powertcp", "begun") == 8 * BEGUN
    assert ffi.sizeof("struct cc_telemetry") == TELEMETRY.itemsize


@pytest.mark.parametrize("total", [SOME, pytest.param(MANY, marks=pytest.mark.long)])
def test_kernel_and_native_header_agree(kernel: Kernel, total: int) -> None:
    limited = loaded = full = begun = committed = 0
    for each in agreed(header("powertcp"), kernel, np.random.default_rng(23), total, sequences):
        line, power = each.params[:, 0], each.states[:, POWER]
        limited += int((each.rates < line).sum())
        loaded += int(((power > 1 << 24) & (power < 1 << 28)).sum())
        full += int((power == 64 << 26).sum())
        begun += int((each.states[:, BEGUN] & np.uint64(1)).sum())
        committed += int((each.states[:, REFERENCE] < line).sum())
    # The events did something, and all kinds of it.
    assert begun > 0.6 * total and limited > total // 4 and committed > total // 4
    assert loaded > total // 10 and full > total // 50
