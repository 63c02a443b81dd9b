"""Floats as integers that can be added in any order: a block of values shares a power of two.

    agreed = the largest of all ranks' exponents(values, lanes)
    integers = to_integers(values, agreed, lanes, ranks)      # these are summed, modulo 2^32
    to_floats(sums, agreed, lanes, ranks)

For arrays what `core/floats.c` does for a packet, and the same bit for bit, which a test compares.
A block's exponent e is the largest with 2^e <= |value| for its largest value, and an integer counts
units of 2^(e - 29 + ceil(log2 ranks)): the sum of all ranks' fits int32.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

BIAS = 128
NONE = 0
"""The exponent of a block of zeros."""

TOO_LARGE = 255
"""The exponent of a block with an infinity, a NaN or a value from 2^127 on: its sums are NaN."""

_SMALLEST = 1 - BIAS  # also of what is smaller than normal
_LARGEST = 126
_INT_BITS = 30

Exponents = NDArray[np.uint8]
Floats = NDArray[np.float32]
Integers = NDArray[np.int32]


def exponents(values: Floats, lanes: int) -> Exponents:
    """Return each block's exponent, biased by 128: what a rank needs for its own values."""
    blocks = _blocks(np.abs(values), lanes)
    largest = blocks.max(axis=1) if blocks.size else np.zeros(0, np.float32)
    powers = np.frexp(largest)[1] - 1
    found = np.maximum(powers, _SMALLEST) + BIAS
    found[largest == 0] = NONE
    found[~np.isfinite(largest) | (powers > _LARGEST)] = TOO_LARGE
    biased: Exponents = found.astype(np.uint8)
    return biased


def to_integers(values: Floats, agreed: Exponents, lanes: int, ranks: int) -> Integers:
    """Return the values in units of their blocks' agreed exponents, rounded to the nearest even."""
    usable = np.where((agreed == NONE) | (agreed == TOO_LARGE), BIAS, agreed)
    shifts = _bits(ranks) - (usable.astype(np.int32) - BIAS + 1)
    blocks = np.ldexp(_blocks(values, lanes).astype(np.float64), shifts[:, None])
    blocks[(agreed == NONE) | (agreed == TOO_LARGE)] = 0.0
    return np.rint(blocks).astype(np.int32).reshape(-1)[: len(values)]


def to_floats(sums: Integers, agreed: Exponents, lanes: int, ranks: int) -> Floats:
    """Return the floats that sums stand for; NaN in blocks that are too large."""
    shifts = agreed.astype(np.int32) - BIAS + 1 - _bits(ranks)
    blocks = np.ldexp(_blocks(sums, lanes).astype(np.float64), shifts[:, None])
    blocks[agreed == NONE] = 0.0
    blocks[agreed == TOO_LARGE] = np.nan
    with np.errstate(over="ignore"):
        return blocks.astype(np.float32).reshape(-1)[: len(sums)]


def _bits(ranks: int) -> int:
    """Return the bits of an integer's magnitude such that the sum of `ranks` fits 30."""
    return _INT_BITS - (ranks - 1).bit_length()


def _blocks(values: NDArray[np.generic], lanes: int) -> NDArray[np.generic]:
    """Return values as rows of `lanes`, the last one filled up with zeros."""
    rows = -(-len(values) // lanes)
    if rows * lanes != len(values):
        values = np.concatenate([values, np.zeros(rows * lanes - len(values), values.dtype)])
    return values.reshape(rows, lanes)
