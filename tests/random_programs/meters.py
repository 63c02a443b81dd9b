"""Two-rate meters as RFC 2698 has them, color-blind, with tokens that come in whole ones."""

from __future__ import annotations

from dataclasses import dataclass

from tests.random_programs.model import Rates

GREEN, YELLOW, RED = range(3)
US_PER_S = 1_000_000


@dataclass
class _Bucket:
    rate: int
    burst: int
    tokens: int
    issued: int = 0

    def take(self, at_us: int, size: int) -> bool:
        """Whether there are so many tokens, which are gone then."""
        issued = at_us * self.rate // US_PER_S
        self.tokens = min(self.burst, self.tokens + issued - self.issued)
        self.issued = issued
        if self.tokens < size:
            return False
        self.tokens -= size
        return True


class TwoRate:
    """One cell, full at the start."""

    def __init__(self, rates: Rates) -> None:
        cir, cburst, pir, pburst = rates
        self.committed = _Bucket(cir, cburst, cburst)
        self.peak = _Bucket(pir, pburst, pburst)

    def color(self, at_us: int, size: int) -> int:
        """Return the colour of a packet of that size.

        A red one leaves the committed bucket alone.
        """
        if not self.peak.take(at_us, size):
            return RED
        return GREEN if self.committed.take(at_us, size) else YELLOW
