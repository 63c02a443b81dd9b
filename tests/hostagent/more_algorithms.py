"""The algorithms of `algorithms_for_tests` behind those that ship, in card, engine, XDP program.

    with more_algorithms.built().card_in_place(): ...          its headers: built().include
    with engine_in_place(more_algorithms.built()): ...         simulator.core.own_algorithm

What is built lies in build/more-algorithms; a card takes some seconds, once for each change of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

import pytest

from hostagent import own_algorithm
from hostagent.own_algorithm import Built

HERE = Path(__file__).resolve().parent / "algorithms_for_tests"
CACHE = Path(__file__).resolve().parents[2] / "build" / "more-algorithms"
NAMES = ("windowed", "listener", "wheel", "timed")
NO_LIMIT = (1 << 64) - 1  # CC_NO_LIMIT: their rates bind nobody


def windowed(window: int, **fields: int) -> Mapping[str, int]:
    """Parameters of the algorithm `windowed`."""
    rest = dict.fromkeys(("later_at", "later", "each", "shrinks_at", "shrunk"), 0)
    return {"line_rate": NO_LIMIT, "min_rate": 1, "window": window, **rest, **fields}


LISTENER: Mapping[str, int] = {"line_rate": NO_LIMIT, "min_rate": 1}


@cache
def built() -> Built:
    """Return the list with these algorithms, and what is built with it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WEFT_CACHE_DIR", str(CACHE))
        return own_algorithm.built(*(own_algorithm.read(HERE / f"{name}.h") for name in NAMES))
