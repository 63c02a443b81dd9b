"""What messages cost in an empty fabric: alone from end to end, and at both ends' interfaces."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from topologies.model import Topology
from workloads.model import Records
from workloads.paths import PathTable, busy_ps

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Costs:
    """Of each message: alone in an empty fabric, and how long it keeps both ends busy.

    `sender`, `receiver`: numbers of the interfaces.
    """

    alone_ps: Numbers
    tx_ps: Numbers
    rx_ps: Numbers
    sender: Numbers
    receiver: Numbers


class MessageCosts:
    """The costs of messages on a run's flows."""

    def __init__(self, topology: Topology, flows: Records, table: PathTable) -> None:
        self.interfaces = sum(len(host.interfaces) for host in topology.hosts)
        starts = np.cumsum([0, *(len(host.interfaces) for host in topology.hosts)])
        self._flows = flows
        self._table = table
        self._sender = starts[flows["src"]] + flows["src_port"]
        self._receiver = starts[flows["dst"]] + flows["dst_port"]
        # Few flows differ in what counts here.
        self._like, self._kind = _distinct(table.kind, flows["payload"], flows["rate_bps"])
        self._first = np.array([links[0] for links in table.links], dtype=np.int64)
        self._last = np.array([links[-1] for links in table.links], dtype=np.int64)

    def of(self, flow: Numbers, size: Numbers) -> Costs:
        """Return what messages of these flows and sizes (bytes) cost."""
        if not len(flow):
            none = np.zeros(0, dtype=np.int64)
            return Costs(none, none, none, none, none)
        flows, table, like = self._flows, self._table, self._like
        # Few sizes differ: every time is computed once for each that does.
        keys = size * len(like) + self._kind[flow]
        distinct, row = np.unique(keys, return_inverse=True)
        sizes, example = distinct // len(like), like[distinct % len(like)]
        payload = flows["payload"].astype(np.int64)[example]
        limit = flows["rate_bps"].astype(np.int64)[example]
        through_ps = table.through_ps(example, sizes, payload, limit)
        links = table.kind[example]
        return Costs(
            np.where(size > 0, through_ps[row] + table.delay_ps[flow], 0),
            busy_ps(sizes, payload, self._first[links])[row],
            busy_ps(sizes, payload, self._last[links])[row],
            self._sender[flow],
            self._receiver[flow],
        )


def _distinct(*columns: Records) -> tuple[Numbers, Numbers]:
    """Return the place of the first row of each kind, and the kind of every row."""
    rows = np.stack([column.astype(np.int64) for column in columns], axis=1)
    _, first, kind = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    return first, kind.ravel()
