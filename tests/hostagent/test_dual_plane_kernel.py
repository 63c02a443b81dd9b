"""The failover of planes in the kernel and the same header natively: equal state after the same
answers to probes.

Every sequence begins with a fresh state, has parameters of its own (those that senders have at some
rate and time scale, or anything in range) and random answers, losses and pauses. There are a
hundred thousand, and in `make test-long` a million; WEFT_DUAL_PLANE_SEQUENCES asks for another
number there.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pytest

from hostagent.rnic.native import native
from mechanisms.dual_plane.parameters import MAX_RATE_BPS, DualPlaneParameters, least_rate_bps
from tests.hostagent.kernel_replay import STEP, Kernel, Words, replay
from tests.hostagent.native_replay import Agreed, agreed, header

pytestmark = pytest.mark.root

SOME, MANY = 100_000, int(os.environ.get("WEFT_DUAL_PLANE_SEQUENCES", "1000000"))
EVENTS = 15
STEPS = EVENTS + 1  # the last asks for the rate
TIME_MOST = 1 << 56
WRAP = 1 << 32
MS, S = 10**6, 10**9
RATE, HOLD, FLAGS, ANSWERS, LOSSES = 7, 10, 11, 12, 13  # words of struct dual_plane


@pytest.fixture(scope="module")
def kernel() -> Iterator[Kernel]:
    with replay("dual_plane", header("dual_plane").state_bytes()) as loaded:
        yield loaded


def of_senders(random: np.random.Generator, n: int) -> Words:
    """Rows of struct dual_plane_params as senders have them, at several rates and time scales."""
    rows = [
        list(
            DualPlaneParameters(
                rate * 10**9,
                least_rate_bps(rate * 10**9),
                10 * MS,
                10 * S,
                2 * S,
                MS // 10,
                answers,
            )
            .with_time_scale(scale)
            .fields()
            .values()
        )
        for rate in (1, 25, 100, 400, 800, 1600)
        for scale in (1, 100, 10_000)
        for answers in (1, 2, 5)
    ]
    return np.array(rows, np.uint64)[random.integers(0, len(rows), n)]


def anything(random: np.random.Generator, n: int) -> Words:
    """Rows of parameters anywhere in their ranges, each magnitude as likely as any other."""

    def up_to(most: int) -> Words:
        return np.exp(random.uniform(0, np.log(most), n)).astype(np.uint64)

    def or_none(values: Words) -> Words:
        return np.where(random.random(n) < 0.2, np.uint64(0), values)

    line, most = up_to(MAX_RATE_BPS), up_to(TIME_MOST)
    few = random.random(n) < 0.9
    return np.column_stack(
        (
            line,
            np.minimum(up_to(MAX_RATE_BPS), line),
            or_none(np.minimum(up_to(TIME_MOST), most)),
            most,
            or_none(up_to(TIME_MOST)),
            or_none(up_to(TIME_MOST)),
            np.where(few, random.integers(1, 4, n).astype(np.uint64), up_to(WRAP - 1)),
        )
    )


def sequences(random: np.random.Generator, n: int) -> tuple[Words, npt.NDArray[np.void]]:
    """Parameters of `n` sequences, and their steps one behind the other."""
    half = n // 2
    params = np.vstack((of_senders(random, half), anything(random, n - half)))
    shape = (n, STEPS)
    steps = np.zeros(shape, STEP)
    steps["now"] = np.cumsum(_pauses(random, params), axis=1) + np.uint64(10**12)
    ago = np.exp(random.uniform(0, np.log(10**9), shape)).astype(np.uint64)
    ago *= random.integers(0, 2, shape).astype(np.uint64)
    lost = np.where(random.random(shape) < 0.2, steps["now"] - ago, np.uint64(0))
    steps["lost_at"] = np.maximum.accumulate(lost, axis=1)
    # Numbers begin anywhere, or where they are about to wrap; some probes stay without an answer.
    begin = np.where(random.random(n) < 0.5, WRAP - 14, random.integers(0, WRAP, n))
    missed = random.choice([1] * 14 + [0, 2, 9], shape)
    steps["number"] = (begin[:, None] + np.cumsum(missed, axis=1)) % WRAP
    steps["kind"] = native().lib.CC_PROBED
    steps["rtt_ns"] = ago
    steps["asks"][:, -1] = 1
    steps["state"] = np.arange(n, dtype=np.uint32)[:, None]
    return params, steps.reshape(-1)


def _pauses(random: np.random.Generator, params: Words) -> Words:
    """Between steps: of the size of a time of the parameters, or from ns to minutes."""
    shape = (len(params), STEPS)
    times = params[:, [2, 4, 5]].astype(np.float64)
    own = np.take_along_axis(times, random.integers(0, 3, shape), axis=1)
    own = np.minimum(own, 1e15) * random.choice([0.3, 1, 2, 3], shape)
    any_time = np.exp(random.uniform(0, np.log(10**11), shape))
    kind = random.random(shape)
    return np.where(kind < 0.4, own, np.where(kind < 0.7, any_time, 1000.0)).astype(np.uint64)


def tally(each: Agreed) -> Counter[str]:
    """How many of these sequences have ended where."""
    line, least, first, longest = (each.params[:, place] for place in range(4))
    flags, rate, hold = each.states[:, FLAGS], each.states[:, RATE], each.states[:, HOLD]
    down, ramping = flags & np.uint64(WRAP - 1), flags >> np.uint64(32)
    answered = each.states[:, ANSWERS] & np.uint64(WRAP - 1)
    number, losses = each.states[:, ANSWERS] >> np.uint64(32), each.states[:, LOSSES]
    wide = line // np.uint64(16) > least
    found = {
        "down": down == 1,
        "up again": (down == 0) & (losses > 0),
        "a sixteenth": (ramping == 1) & wide & (rate == line >> np.uint64(4)),
        "a quarter": (ramping == 1) & wide & (rate == line >> np.uint64(2)),
        "the least at least": (ramping == 1) & ~wide,
        "grown since": each.rates > rate,
        "doubled": (losses > 1) & (hold > first),
        "the longest": (losses > 1) & (hold == longest) & (longest > first),
        "forgiven": (losses > 1) & (hold == first) & (first > 0) & (longest > first),
        "wrapped": (answered > 1) & (number < answered - np.uint64(1)),
        "in a row": answered > 4,
    }
    return Counter({name: int(which.sum()) for name, which in found.items()})


def test_the_parameters_are_laid_out_as_the_test_thinks() -> None:
    ffi = native().ffi
    fields = dict(ffi.typeof("struct dual_plane_params").fields)
    assert ffi.sizeof("struct dual_plane_params") == RATE * 8
    assert list(fields)[:7] == [
        "line_rate", "min_rate", "hold_ns", "hold_most_ns", "stable_ns", "ramp_ns", "answers",
    ]  # fmt: skip
    places = {"rate": RATE, "hold": HOLD, "down": FLAGS, "answered": ANSWERS, "losses": LOSSES}
    assert {name: ffi.offsetof("struct dual_plane", name) // 8 for name in places} == places
    assert ffi.sizeof("struct cc_step") == STEP.itemsize
    assert [ffi.offsetof("struct cc_step", name) for name in ("now", "state", "asks")] == [
        STEP.fields[name][1] for name in ("now", "state", "asks")
    ]
    for name in ("number", "bytes", "rtt_ns", "lost_at"):
        assert 8 + ffi.offsetof("struct cc_event", name) == STEP.fields[name][1]


@pytest.mark.parametrize("total", [SOME, pytest.param(MANY, marks=pytest.mark.long)])
def test_kernel_and_native_header_agree(kernel: Kernel, total: int) -> None:
    ended: Counter[str] = Counter()
    for each in agreed(header("dual_plane"), kernel, np.random.default_rng(20), total, sequences):
        ended += tally(each)
    rare = {name: count for name, count in ended.items() if count < total // 1000}
    assert len(ended) == 11 and not rare, ended
