"""A small data set: handwritten-like digits, drawn from a font of 5 x 7 dots. Made, not loaded.

Each picture of 8 x 8 has a digit somewhere in it, at a strength of its own, with noise over it. The
same numbers come from the same seed on every machine.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

SIDE = 8
CLASSES = 10

_FONT = (
    "01110 10001 10011 10101 11001 10001 01110",
    "00100 01100 00100 00100 00100 00100 01110",
    "01110 10001 00001 00110 01000 10000 11111",
    "11110 00001 00001 01110 00001 00001 11110",
    "00010 00110 01010 10010 11111 00010 00010",
    "11111 10000 11110 00001 00001 10001 01110",
    "01110 10000 10000 11110 10001 10001 01110",
    "11111 00001 00010 00100 01000 01000 01000",
    "01110 10001 10001 01110 10001 10001 01110",
    "01110 10001 10001 01111 00001 00001 01110",
)
_NOISE = 0.25
_WEAKEST = 0.6


def digits(count: int, seed: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Return `count` pictures, a row of SIDE * SIDE each, and which digits they show."""
    random = np.random.default_rng(seed)
    glyphs = np.array([[[int(dot) for dot in row] for row in text.split()] for text in _FONT])
    shown = random.integers(0, CLASSES, count)
    downs = random.integers(0, SIDE - 7 + 1, count)
    rights = random.integers(0, SIDE - 5 + 1, count)
    strengths = random.uniform(_WEAKEST, 1.0, count)
    pictures = random.normal(0.0, _NOISE, (count, SIDE, SIDE))
    for picture, digit, down, right, strength in zip(
        pictures, shown, downs, rights, strengths, strict=True
    ):
        picture[down : down + 7, right : right + 5] += strength * glyphs[digit]
    return pictures.reshape(count, -1).astype(np.float32), shown.astype(np.int64)
