"""The simulator's engine in C (sim.h) and its typed Python face.

Nothing here knows topologies, controllers or files: that is the rest of `simulator`.
"""

from simulator.core.binding import (
    NEVER,
    Engine,
    EngineError,
    HostPort,
    HostPortStats,
    Punt,
    ScriptFrame,
    Stop,
    StreamKind,
    Tapped,
    Ticker,
    TickerStats,
    Totals,
)

__all__ = [
    "NEVER",
    "Engine",
    "EngineError",
    "HostPort",
    "HostPortStats",
    "Punt",
    "ScriptFrame",
    "Stop",
    "StreamKind",
    "Tapped",
    "Ticker",
    "TickerStats",
    "Totals",
]
