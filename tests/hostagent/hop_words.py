"""What switches write, for many sequences at once: steps and their telemetry as arrays."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from hostagent.rnic.native import native
from tests.hostagent.kernel_replay import STEP, TELEMETRY, Words

EVENTS = 11
STEPS = EVENTS + 1  # the last asks for the rate
HOPS, HOP_BYTES = 5, 12
WIDTHS = (2, 2, 3, 3, 2)  # of a record's fields, in bytes


def up_to(random: np.random.Generator, most: int, shape: int | tuple[int, ...]) -> Words:
    """Return numbers from 1 to `most`, each magnitude as likely as any other."""
    return np.exp(random.uniform(0, np.log(most), shape)).astype(np.uint64)


def walked(
    random: np.random.Generator, trip: Words, scale: Words
) -> tuple[npt.NDArray[np.void], npt.NDArray[np.void]]:
    """Return the steps of sequences, one behind the other, and what each of them is told.

    `trip`: by sequence, a round trip in ns as it runs; `scale`: ns there for one of the fabric.
    """
    n = len(trip)
    shape = (n, STEPS)
    steps = np.zeros(shape, STEP)
    own = trip[:, None].astype(np.float64) * random.uniform(0, 2, shape)
    pauses = np.where(random.random(shape) < 0.8, own, up_to(random, 10**11, shape))
    steps["now"] = np.cumsum(pauses.astype(np.uint64), axis=1) + np.uint64(10**12)
    steps["kind"] = native().lib.CC_ACKED
    steps["bytes"] = 4096
    known = random.random(shape) < 0.8
    steps["rtt_ns"] = np.where(
        known, trip[:, None] * random.integers(1, 13, shape, np.uint64) // np.uint64(4), 0
    )
    steps["asks"][:, -1] = 1
    steps["state"] = np.arange(n, dtype=np.uint32)[:, None]
    told = _told(random, steps["now"] // scale[:, None])
    return steps.reshape(-1), told.reshape(-1)


def _told(random: np.random.Generator, fabric: Words) -> npt.NDArray[np.void]:
    """Return the telemetry of steps at these times of the fabric."""
    n = len(fabric)
    told = np.zeros(fabric.shape, TELEMETRY)
    told["hops"] = random.integers(0, HOPS + 1, (n, 1))
    told["bytes"] = told["hops"] * HOP_BYTES
    told["format"] = 1
    told["data"][:, :, : HOPS * HOP_BYTES] = _records(random, fabric)
    # Some tell of a whole path, of nothing, or of anything at all; formats 0 and 3 are nobody's.
    kind = random.random((n, 1)) + 0.1 * random.random(fabric.shape)
    told["format"] = np.where(kind < 0.2, 2, told["format"])
    odd = random.random(fabric.shape) < 0.03
    told["format"] = np.where(odd, random.integers(0, 4, fabric.shape), told["format"])
    told["bytes"] = np.where(odd, random.integers(0, 17, fabric.shape) * 4, told["bytes"])
    noise = random.integers(0, 256, (int(odd.sum()), 64), np.uint8)
    told["data"][odd] = noise
    return told


def _records(random: np.random.Generator, fabric: Words) -> npt.NDArray[np.uint8]:
    """Return five records a step, as bytes: ports that go on, and now and then another one."""
    shape = (*fabric.shape, HOPS)
    hop = np.broadcast_to(random.integers(1, 1 << 16, (shape[0], 1, HOPS)), shape)
    hop = np.where(random.random(shape) < 0.05, random.integers(0, 1 << 16, shape), hop)
    exponent = random.integers(0, 16, (shape[0], 1, HOPS))
    mantissa = random.integers(1, 1 << 12, (shape[0], 1, HOPS))
    rate = np.broadcast_to(exponent << 12 | mantissa, shape)
    bps = (mantissa << exponent) * 65536.0
    late = np.where(random.random(shape) < 0.8, up_to(random, 10**4, shape), 0)
    at = fabric[:, :, None] - late.astype(np.uint64)
    at = np.where(random.random(shape) < 0.1, at >> np.uint64(6) << np.uint64(6), at)
    # So much of its line that about as much again waits as often as not.
    spent = np.diff(at.astype(np.float64), axis=1, prepend=at[:, :1].astype(np.float64))
    sent = np.maximum(spent, 0) * bps / 512e9 * random.choice([0.3, 0.9, 1, 1], shape)
    total = np.cumsum(np.minimum(sent, 1e15).astype(np.uint64), axis=1)
    queue = random.random(shape) * random.choice([0, 0, 1, 10], shape) * bps * 13e-6 / 4096
    fields = (hop, rate, at, total, np.minimum(queue, 0xFFFF))
    columns = []
    for values, width in zip(fields, WIDTHS, strict=True):
        whole = values.astype(np.uint64)
        columns += [(whole >> np.uint64(8 * i)).astype(np.uint8) for i in reversed(range(width))]
    return np.stack(columns, axis=-1).reshape(*fabric.shape, HOPS * HOP_BYTES)
