"""How benchmarks are called: with numbers that can be measured with, and ended by Ctrl-C."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import NoReturn

INTERRUPTED = 130


def count(text: str) -> int:
    """Parse an argument: a whole number, at least 1. Raises what argparse reports."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is less than 1")
    return number


def seconds(text: str) -> float:
    """Parse an argument: a time above 0. Raises what argparse reports."""
    number = float(text)
    if not 0 < number < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is not a time to measure for")
    return number


def run(main: Callable[[], int | None]) -> NoReturn:
    """End the process with what `main` returns (None: 0), or quietly after Ctrl-C."""
    try:
        code = main()
    except KeyboardInterrupt:
        code = INTERRUPTED
    raise SystemExit(code)
