"""What flows of a run in virtual time received, for labs that ask who gets how much."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from labs import LabError
from simulator.result_reader import ResultFolder

Rates = npt.NDArray[np.float64]


def rates(results: ResultFolder, flows: int, first_ps: int, last_ps: int) -> Rates:
    """Return what each of the first `flows` flows received between two times, in Gb/s."""
    table = results.table("flow_rates", ["at_ps", "flow", "bytes"])
    at, flow = (table[name].to_numpy().astype(np.int64) for name in ("at_ps", "flow"))
    chosen = (at > first_ps) & (at <= last_ps) & (flow < flows)
    received = np.bincount(flow[chosen], table["bytes"].to_numpy()[chosen], minlength=flows)
    return np.asarray(received * 8_000 / (last_ps - first_ps))


def jain(shares: Rates) -> float:
    """Return Jain's index of fairness: 1 if all have the same, 1/n if one has everything."""
    return float(shares.sum() ** 2 / (len(shares) * (shares**2).sum()))


def of_messages(
    results: ResultFolder, column: str, *, least: int = 1, most: int = 1 << 62
) -> float:
    """Return the 99th percentile of a column over messages of such sizes. Raises LabError."""
    table = results.table("messages", ["bytes", column])
    sizes, values = (table[name].to_numpy() for name in ("bytes", column))
    chosen = values[(sizes >= least) & (sizes <= most)]
    if not len(chosen) or np.isnan(chosen).any() or chosen.min() < 0:
        raise LabError(f"a message of {least} to {most} bytes did not end")
    return float(np.percentile(chosen, 99))


def queued(results: ResultFolder, node: str, port: int, first_ps: int, last_ps: int) -> Rates:
    """Return what waited at a switch's port at each sample between two times, in bytes.

    Samples at which nothing waits are not written; they count as 0. Raises LabError.
    """
    table = results.table("queues", ["at_ps", "node", "port", "bytes"])
    every_ps = results.sample_ps
    if not every_ps:
        raise LabError("the run has no `sample:`")
    at = table["at_ps"].to_numpy().astype(np.int64)
    chosen = (np.array(table["node"].to_pylist()) == node) & (table["port"].to_numpy() == port)
    chosen &= (at > first_ps) & (at <= last_ps)
    found = np.zeros((last_ps - first_ps) // every_ps)
    places = np.minimum((at[chosen] - first_ps - 1) // every_ps, len(found) - 1)
    np.add.at(found, places, table["bytes"].to_numpy()[chosen])
    return found
