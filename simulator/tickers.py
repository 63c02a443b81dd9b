"""The tickers of a run's switches, and reports of their ports, in virtual time."""

from __future__ import annotations

from mechanisms.tickers import port_report, scheduled
from simulator.core.binding import Ticker
from simulator.fabric import Fabric
from topologies.tickers import TICKER_PORT


def apply_tickers(fabric: Fabric, seed: int) -> dict[str, list[int]]:
    """Give each switch its tickers; return the engine's numbers of them, by switch."""
    topology, engine = fabric.topology, fabric.engine
    found: dict[str, list[int]] = {}
    for switch in topology.switches:
        for each in scheduled(topology, switch, seed):
            node = fabric.switches[switch.name].node
            ticker = Ticker(node, TICKER_PORT, each.start_ps, each.period_ps, each.packet)
            found.setdefault(switch.name, []).append(engine.add_ticker(ticker))
    return found


def apply_port_report(fabric: Fabric) -> None:
    """Let each switch report its ports to its program, where a mechanism asks for that."""
    fabric.port_report = port_report(fabric.topology)
    for switch in fabric.switches.values():
        switch.device.core.report_ports(TICKER_PORT, fabric.port_report)
