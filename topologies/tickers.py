"""Tickers: packets of a template that come into switches at a period, as v1model has no timer.

They come in by `TICKER_PORT`, which has no link and on which a program sees ordinary packets. Who
asks for them is a topology file (`tickers:`) or a mechanism; `mechanisms.tickers` has both.
"""

from __future__ import annotations

from dataclasses import dataclass

from softswitch.ticker_options import TICKER_PORT, packet_bytes
from topologies.units import format_duration, show_duration

__all__ = [
    "LEAST_PERIOD_PS",
    "LEAST_REAL_PS",
    "MOST_PERIOD_PS",
    "TICKER_PORT",
    "Ticker",
    "TickerRule",
    "period",
    "scale_for",
]

LEAST_PERIOD_PS = 10_000
"""10 ns; a frame of 64 bytes at 400 Gb/s takes 1.68 ns."""

MOST_PERIOD_PS = 10**12

LEAST_REAL_PS = 100_000_000
"""The shortest period that one machine keeps for a whole fabric: 100 us, some timers' lateness."""


def period(ps: int) -> int:
    """Return a period in fabric time. Raises ValueError unless it is from 10ns to 1s."""
    if not LEAST_PERIOD_PS <= ps <= MOST_PERIOD_PS:
        least, most = map(format_duration, (LEAST_PERIOD_PS, MOST_PERIOD_PS))
        raise ValueError(f"a ticker's period is from {least} to {most}, not {show_duration(ps)}")
    return ps


def scale_for(period_ps: int) -> int:
    """Return the least time scale at which one machine keeps a period in fabric time."""
    return -(-LEAST_REAL_PS // period_ps)


@dataclass(frozen=True)
class Ticker:
    """A packet at `start_ps` + k * `period_ps` for every k from 0, in fabric time.

    `packet`: from the Ethernet header on, in hex. `start_ps`: None draws it for each switch, from
    0 to a period, so that not all of them tick in step.
    """

    period_ps: int
    packet: str
    start_ps: int | None = None

    def __post_init__(self) -> None:
        """Raise ValueError for what no runtime could tick."""
        period(self.period_ps)
        packet_bytes(self.packet)
        if self.start_ps is not None and self.start_ps < 0:
            raise ValueError("a ticker's start is not negative")

    @classmethod
    def of(cls, period_ps: int, packet: bytes, start_ps: int | None = None) -> Ticker:
        """Return a ticker of these bytes. Raises ValueError."""
        return cls(period_ps, packet.hex(), start_ps)

    @property
    def data(self) -> bytes:
        """The packet's bytes."""
        return packet_bytes(self.packet)


@dataclass(frozen=True)
class TickerRule:
    """A ticker of the file, and the switches that have it; none named: all of them."""

    ticker: Ticker
    switches: tuple[str, ...] = ()
