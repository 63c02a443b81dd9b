"""The tickers of a switch, as a run has them: those of the topology file, then mechanisms'."""

from __future__ import annotations

from dataclasses import dataclass

from mechanisms.registry import mechanisms
from topologies.model import Switch, Topology
from topologies.tickers import Ticker
from workloads.randomness import Random

SEED = 1
"""What start times are drawn by where a run has no seed."""


@dataclass(frozen=True)
class Scheduled:
    """A ticker at the topology's time scale: tick k at `start_ps` + k * `period_ps`."""

    start_ps: int
    period_ps: int
    packet: bytes


def tickers(topology: Topology, switch: Switch) -> tuple[Ticker, ...]:
    """Return all tickers of a switch, in fabric time."""
    asked = (
        ticker
        for each in mechanisms()
        if each.holds(topology)
        for ticker in each.tickers(topology, switch)
    )
    return (*topology.tickers_of(switch.name), *asked)


def port_report(topology: Topology) -> bytes:
    """Return the packet by which switches report that a port lost or got carrier; b"": none."""
    held = (each for each in mechanisms() if each.holds(topology))
    return next(filter(None, (each.port_report(topology) for each in held)), b"")


def scheduled(topology: Topology, switch: Switch, seed: int = SEED) -> tuple[Scheduled, ...]:
    """Return all tickers of a switch as they run; start times left open are drawn by the seed."""
    return tuple(
        Scheduled(
            _start_ps(ticker, seed, switch, number) * topology.time_scale,
            ticker.period_ps * topology.time_scale,
            ticker.data,
        )
        for number, ticker in enumerate(tickers(topology, switch))
    )


def _start_ps(ticker: Ticker, seed: int, switch: Switch, number: int) -> int:
    if ticker.start_ps is not None:
        return ticker.start_ps
    return Random(seed, "ticker", switch.name, number).below(ticker.period_ps)
