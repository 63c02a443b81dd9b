"""Which source ports flows have, and which of them need entries to follow their paths."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from controller.jobs import DeclaredJob
from controller.leaf_routes import Routes
from mechanisms.iglb.ecmp_hash import EcmpHash
from mechanisms.iglb.hash_ports import choose_ports
from mechanisms.iglb.pins import PinMaker, Pins
from mechanisms.iglb.plan import Plan
from topologies.model import Topology

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Followed:
    """A plan as switches and queue pairs follow it; arrays by the plan's flows.

    `udp_port`: of each queue pair. `by_entry`: whether it needs pins, which `pins` holds.
    """

    plan: Plan
    udp_port: Ints
    by_entry: Bools
    pins: Pins

    def ports(self) -> dict[str, Ints]:
        """Return the source ports of each job's flows."""
        return {job.name: self.udp_port[self.plan.of(job.name)] for job in self.plan.jobs}


class Follower:
    """Makes plans followed in one fabric.

    `by_ports`: the hash is to lead flows where it can. Where a switch's ways have changed since the
    fabric was whole, it spreads flows differently, and members may have come back in another order:
    what passes there has entries.
    """

    def __init__(self, topology: Topology, by_ports: bool) -> None:
        self._topology = topology
        self._by_ports = by_ports
        self._maker = PinMaker(topology)
        self._whole = Routes.of(topology)
        self._hash = EcmpHash(topology, self._whole)
        self._unsure: set[str] = set()

    def routed(self, routes: Routes) -> None:
        """Take notice that these are the routes now."""
        if self._by_ports:
            self._unsure |= {
                switch.name
                for switch in self._topology.switches
                if routes.row(switch.name) != self._whole.row(switch.name)
            }

    def follow(self, plan: Plan, open_ports: Mapping[str, Ints]) -> Followed:
        """Return how a plan is followed. `open_ports`: of jobs that run, and keep their ports.

        So do jobs that were open already when they came.
        """
        source, target, own = (_all(plan.jobs, name) for name in ("source", "target", "udp_port"))
        held = np.zeros(len(own), dtype=np.bool_)
        first = 0
        for job in plan.jobs:
            ports = open_ports.get(job.name, job.udp_port if job.is_open else None)
            if ports is not None and len(ports) == len(job):
                own[first : first + len(job)] = ports
                held[first : first + len(job)] = True
            first += len(job)
        by_entry = np.ones(len(own), dtype=np.bool_)
        if self._by_ports:
            found = choose_ports(self._hash, source, target, plan.arcs, own, held)
            own = np.where(found.udp_port < 0, own, found.udp_port)
            by_entry = ~found.leads | self._maker.through(plan.arcs, self._unsure)
        pins = self._maker.pins(source, target, own, plan.arcs, by_entry)
        return Followed(plan, own, by_entry, pins)


def _all(jobs: Sequence[DeclaredJob], name: str) -> Ints:
    parts = [np.asarray(getattr(job, name), dtype=np.int64) for job in jobs]
    return np.concatenate(parts) if parts else np.empty(0, dtype=np.int64)
