"""Jobs that do not send what they declared: what switches counted, beside it. Pure.

Two things give one away. Its hosts send RoCE data of flows that no job declared, which switches
count at hosts' ports. And its flows carry other shares than declared: pins count bytes, and a job
goes through its phases again and again, so all of its flows are within one round of each other, the
first one not done yet included.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from controller.jobs import DeclaredJob
from mechanisms.iglb.followed import Followed
from mechanisms.iglb.pins import Flow
from topologies.model import Topology

Floats = npt.NDArray[np.float64]

MARGIN = 0.25
"""Of a round: headers, acknowledgements that come back, and what is sent twice."""

SLACK_BYTES = 256 * 1024
"""Of a flow, that say nothing: a message more or less."""


@dataclass(frozen=True)
class Lie:
    """A job, the host that did something else than the job declared, and what it did."""

    job: str
    host: str
    what: str


def undeclared(
    topology: Topology, jobs: Mapping[str, DeclaredJob], unplanned: Mapping[tuple[str, int], int]
) -> list[Lie]:
    """Return the jobs whose hosts sent packets of undeclared flows.

    `unplanned`: packets by switch and port. A host of no job is reported with an empty job.
    """
    interfaces = list(topology.interfaces())
    place = {(each.switch, each.port): n for n, each in enumerate(interfaces)}
    found = []
    for at, packets in sorted(unplanned.items()):
        if packets and at in place:
            number = place[at]
            sends = [name for name, job in jobs.items() if number in job.source] or [""]
            what = f"{packets} packets of flows that no job declared"
            found += [Lie(name, interfaces[number].host, what) for name in sends]
    return found


def shares(topology: Topology, followed: Followed, counted: Mapping[Flow, int]) -> list[Lie]:
    """Return flows that carried more or less than their share of what their job sent.

    `counted`: bytes of flows by their pins at the switches that they come in by.
    """
    interfaces = list(topology.interfaces())
    ports = followed.ports()
    found = []
    for job in followed.plan.jobs:
        declared = np.zeros(len(job))
        for each in job.sets:
            np.add.at(declared, each.flow, each.bytes)
        keys = [
            (int(interfaces[a].address.ip), int(interfaces[b].address.ip), port)
            for a, b, port in zip(
                job.source.tolist(), job.target.tolist(), ports[job.name].tolist(), strict=True
            )
        ]
        seen = np.array([counted.get(key, -1) for key in keys], dtype=np.float64)
        for flow, what in _odd(declared, seen):
            target = interfaces[int(job.target[flow])].host
            host = interfaces[int(job.source[flow])].host
            found.append(Lie(job.name, host, f"to {target} by port {keys[flow][2]}: {what}"))
    return found


def _odd(declared: Floats, seen: Floats) -> list[tuple[int, str]]:
    """Return flows with another number of rounds than the rest; `seen` -1: not counted."""
    known = np.flatnonzero((seen >= 0) & (declared > 0))
    if len(known) < 2:
        return []
    rounds = seen[known] / declared[known]
    usual = float(np.median(rounds))
    most = (np.floor(usual) + 1) * (1 + MARGIN)
    least = (np.floor(usual) - 1) * (1 - MARGIN)
    found = []
    for flow, number in zip(known.tolist(), rounds.tolist(), strict=True):
        off = abs(seen[flow] - usual * declared[flow]) > SLACK_BYTES
        if off and (number > most or number < least):
            found.append(
                (flow, f"{number:.1f} times what it declared for a round, others {usual:.1f}")
            )
    return found
