"""What packets of watched flows collected on their way: a row a hop.

Runs without `record: {telemetry: ...}` have none of it: their files are what they were.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simulator.result_model import Records, RunIdentity
from simulator.result_statistics import MILLION
from simulator.result_tables import Column, Kind, TableWriter, integers
from topologies.model import Topology

TABLE = "telemetry"
_ABSENT = -1
_BITS = 8


class TelemetryTable:
    """Writes rows of sim_hop_sample as they come. `ports`: switch and port by number in records."""

    def __init__(
        self,
        path: Path,
        topology: Topology,
        ports: Mapping[int, tuple[str, int]],
        time_scale: int,
        about: Mapping[str, str],
    ) -> None:
        """`time_scale`: links are that much slower than the topology says."""
        names = tuple(switch.name for switch in topology.switches)
        of_switch = {name: number for number, name in enumerate(names)}
        rates = {
            (name, each.number): each.link.rate_bps // time_scale
            for name in names
            for each in topology.ports_of(name)
        }
        size = max(ports, default=0) + 1
        self._switch = np.full(size, _ABSENT, np.int64)
        self._port = np.full(size, _ABSENT, np.int64)
        self._rate = np.zeros(size, np.int64)
        for number, (name, port) in ports.items():
            self._switch[number], self._port[number] = of_switch[name], port
            self._rate[number] = rates[name, port]
        self._flows: set[int] = set()
        self._packets = 0
        self._writer = TableWriter(
            path,
            (
                *integers("at_ps", "sent_ps", "flow", "hop", "hops"),
                Column("node", Kind.NAME, names),
                *integers("port", "queue_bytes", "latency_ps", "used_ppm"),
            ),
            about,
        )

    @property
    def rows(self) -> int:
        """How many have been added."""
        return self._writer.rows

    def summary(self, identity: RunIdentity) -> dict[str, Any]:
        """Return what summary.json says of it."""
        return {
            TABLE: {
                "every_ps": identity.telemetry_every_ps,
                "flows": len(self._flows),
                "packets": self._packets,
            }
        }

    def add(self, rows: Records) -> None:
        """Add rows."""
        self._flows.update(np.unique(rows["flow"]).tolist())
        self._packets += int((rows["place"] == 0).sum())
        known = np.where(rows["hop"] < len(self._port), rows["hop"], 0)
        self._writer.append(
            {
                "at_ps": rows["at"],
                "sent_ps": rows["sent"],
                "flow": rows["flow"],
                "hop": rows["place"],
                "hops": rows["places"],
                "node": self._switch[known],
                "port": self._port[known],
                "queue_bytes": rows["queue_bytes"],
                "latency_ps": rows["latency"],
                "used_ppm": _used_ppm(rows, self._rate[known]),
            }
        )

    def close(self) -> None:
        """End the file."""
        self._writer.close()


def _used_ppm(rows: Records, rates: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the share of the time that lines were used, in millionths; -1 where not known."""
    known = (rows["used_ps"] > 0) & (rates > 0)
    bits = rows["used_bytes"].astype(np.float64) * _BITS
    room = np.where(known, rows["used_ps"].astype(np.float64) * rates / 10**12, 1.0)
    return np.where(known, np.floor(bits * MILLION / room), _ABSENT).astype(np.int64)
