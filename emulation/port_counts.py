"""What ports have carried where a program counts nothing: as the switch itself reports."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from emulation.errors import EmulationError
from softswitch.diagnostics import DiagnosticsClient, DiagnosticsError

if TYPE_CHECKING:
    from emulation.session import Session


@dataclass(frozen=True)
class PortCount:
    """What one port has received and sent.

    `roce_rx_packets` are among those received; None where the program does not count them.
    """

    rx_packets: int
    rx_bytes: int
    tx_packets: int
    tx_bytes: int
    roce_rx_packets: int | None = None


def port_counts(session: Session, switch: str) -> dict[int, PortCount]:
    """Return the counts of our switch's ports that have a link. Raises EmulationError."""
    try:
        with DiagnosticsClient(session.network.switches[switch].settings.address) as client:
            rows = client.port_stats()
    except DiagnosticsError as error:
        raise EmulationError(f"{switch}: {error}") from None
    return {
        port.number: PortCount(
            *(rows[port.number][key] for key in ("rx_packets", "rx_bytes")),
            *(rows[port.number][key] for key in ("tx_packets", "tx_bytes")),
        )
        for port in session.topology.ports_of(switch)
        if port.number in rows
    }
