"""When a queue marks packets (RFC 3168), as switches and lint need it: thresholds by port rate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

CERTAIN = 1 << 32
"""A probability of 1, in EcnThresholds."""


@dataclass(frozen=True)
class EcnThresholds:
    """Nothing is marked up to `min_bytes`; from there to `max_bytes` linearly up to `probability`.

    Above `max_bytes` everything is. `probability` counts in 1/2^32 (CERTAIN). As an `EcnMarking`:
    the same at every rate.
    """

    min_bytes: int
    max_bytes: int
    probability: int

    @property
    def set_name(self) -> None:
        """These belong to no parameter set."""
        return None

    def at(self, _rate_bps: int) -> EcnThresholds:
        """Return the thresholds of a port of that rate."""
        return self


class EcnMarking(Protocol):
    """How a class marks: thresholds in bytes, or a parameter set's, which depend on the rate."""

    @property
    def set_name(self) -> str | None:
        """The name of the parameter set whose thresholds these are; None: given in bytes."""

    def at(self, rate_bps: int) -> EcnThresholds:
        """Return the thresholds of a port of `rate_bps` (in the fabric)."""


def step(size_bytes: int) -> EcnThresholds:
    """Return thresholds that mark everything above `size_bytes` and nothing below."""
    return EcnThresholds(size_bytes, size_bytes, CERTAIN)
