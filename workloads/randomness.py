"""Random numbers that are the same on every machine: splitmix64, integers only.

Each use has a stream of its own, named by what it is for, so that more of the one does not change
the other. Arithmetic is modulo 2^64.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np
import numpy.typing as npt

_MASK = (1 << 64) - 1
_GOLDEN = 0x9E3779B97F4A7C15  # splitmix64's increment: 2^64 over the golden ratio
_LN2_Q32 = 2977044472  # ln 2 in 1/2^32

T = TypeVar("T")
Words = npt.NDArray[np.uint64]


def mix(word: int) -> int:
    """Return splitmix64's output function of a word."""
    word &= _MASK
    word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & _MASK
    return word ^ (word >> 31)


def mix_words(words: Words) -> Words:
    """Return `mix` of each word."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))


class Random:
    """One stream of random words, chosen by a seed and what it is for."""

    def __init__(self, seed: int, *purpose: str | int) -> None:
        state = mix(seed + _GOLDEN)
        for part in purpose:
            for byte in str(part).encode() + b"\0":
                state = mix((state ^ byte) + _GOLDEN)
        self._state = state

    def word(self) -> int:
        """Return 64 random bits."""
        self._state = (self._state + _GOLDEN) & _MASK
        return mix(self._state)

    def words(self, count: int) -> Words:
        """Return the next `count` words."""
        steps = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(_GOLDEN)
        found = mix_words(steps + np.uint64(self._state))
        self._state = (self._state + count * _GOLDEN) & _MASK
        return found

    def below(self, limit: int) -> int:
        """Return a number from 0 to `limit` - 1."""
        return self.word() * limit >> 64

    def shuffled(self, items: Sequence[T]) -> list[T]:
        """Return the items in random order (Fisher and Yates)."""
        found = list(items)
        for i in range(len(found) - 1, 0, -1):
            j = self.below(i + 1)
            found[i], found[j] = found[j], found[i]
        return found

    def derangement(self, count: int) -> list[int]:
        """Return a permutation of 0 to `count` - 1 that moves each, all with the same chance.

        Of all permutations 1 in e does: others are drawn again. `count` is not 1.
        """
        while True:
            found = self.shuffled(range(count))
            if all(i != moved for i, moved in enumerate(found)):
                return found

    def exponential(self, mean: int, count: int) -> npt.NDArray[np.int64]:
        """Return exponentially distributed whole numbers of this mean, by inversion.

        -ln(u) = ln 2 x -log2(u), the logarithm to 24 binary places by repeated squaring.
        """
        bits = (self.words(count) >> np.uint64(32)) | np.uint64(1)  # u = bits / 2^32, never 0
        exponent = np.zeros(count, dtype=np.uint64)
        for shift in (16, 8, 4, 2, 1):
            above = bits >> (exponent + np.uint64(shift))
            exponent += np.where(above > 0, np.uint64(shift), np.uint64(0))
        fraction = bits << (np.uint64(31) - exponent)  # 1 <= fraction / 2^31 < 2
        log2 = exponent << np.uint64(24)
        for place in range(23, -1, -1):
            fraction = (fraction * fraction) >> np.uint64(31)
            over = fraction >> np.uint64(32)
            log2 += over << np.uint64(place)
            fraction >>= over
        less = (np.uint64(32 << 24) - log2) * np.uint64(_LN2_Q32) >> np.uint64(32)  # -ln u in Q24
        return np.array([int(part) * mean >> 24 for part in less], dtype=np.int64)
