"""What switches tick in real time, and the processes that do it for those that can't."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from emulation.errors import EmulationError
from mechanisms.tickers import scheduled
from softswitch.ticker_options import TickerOption
from topologies.model import Topology
from topologies.tickers import LEAST_REAL_PS, scale_for
from topologies.units import format_duration


def real_tickers(topology: Topology) -> dict[str, tuple[TickerOption, ...]]:
    """Return the tickers of each switch that has any, in real time.

    Raises EmulationError for periods that are too short for processes.
    """
    found = {}
    for switch in topology.switches:
        options = tuple(
            TickerOption(each.period_ps, each.packet, each.start_ps)
            for each in scheduled(topology, switch)
        )
        shortest = min((each.period_ps for each in options), default=LEAST_REAL_PS)
        if shortest < LEAST_REAL_PS:
            fabric_ps = shortest // topology.time_scale
            scale, least = scale_for(fabric_ps), format_duration(LEAST_REAL_PS)
            raise EmulationError(
                f"{switch.name} ticks every {format_duration(fabric_ps)}, which at "
                f"time_scale {topology.time_scale} is {format_duration(shortest)} here: "
                f"at least {least}",
                f"give the topology time_scale: {scale} or more, or run it in the simulator",
            )
        if options:
            found[switch.name] = options
    return found


def ticker_option(ticker: TickerOption) -> str:
    """Return a ticker as `--ticker` and the process take it."""
    return f"period={ticker.period_ps}ps,start={ticker.start_ps}ps,packet={ticker.packet.hex()}"


class TickerProcess:
    """A running `emulation.ticker_process` of one switch."""

    def __init__(
        self, switch: str, interface: str, tickers: Sequence[TickerOption], log_path: Path
    ) -> None:
        """Start it."""
        self.switch = switch
        self.log_path = log_path
        command = [sys.executable, "-m", "emulation.ticker_process", interface]
        with log_path.open("wb") as log:
            self._process = subprocess.Popen(
                [*command, *map(ticker_option, tickers)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C in the terminal is the runner's to handle
            )

    @property
    def pid(self) -> int:
        """The process's id."""
        return self._process.pid

    def check_alive(self) -> None:
        """Raise EmulationError, with the end of the log, when the process has ended."""
        if self._process.poll() is not None:
            lines = self.log_path.read_text(errors="replace").splitlines()[-1:]
            raise EmulationError(
                f"the ticker of {self.switch} ended: {''.join(lines) or 'it said nothing'}"
                f" ({self.log_path})"
            )
