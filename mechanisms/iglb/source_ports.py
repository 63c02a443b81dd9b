"""Who learns of a run's jobs, and which source ports their queue pairs get (`pinning: ports`)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from controller.jobs import DeclaredJob
from controller.leaf_routes import Routes
from mechanisms.iglb.ecmp_hash import EcmpHash
from mechanisms.iglb.fabric import Fabric
from mechanisms.iglb.hash_ports import choose_ports
from mechanisms.iglb.intensity import planner_of
from mechanisms.iglb.late_starts import late_starts
from mechanisms.iglb.settings import Pinning, setting_of
from topologies.model import Topology
from workloads.source_ports import Ports

PS_PER_S = 10**12


class PlannedPorts:
    """Satisfies `workloads.source_ports.PortChooser`."""

    def declares(self, topology: Topology) -> bool:
        """Say whether the topology's controller plans."""
        return setting_of(topology) is not None

    def ports(self, topology: Topology, jobs: Sequence[DeclaredJob]) -> tuple[Ports, ...] | None:
        """Return ports that lead flows along their paths; one that has none keeps its own.

        Ports are for groups that have all their members, as switches have them before anything
        fails.
        """
        setting = setting_of(topology)
        if setting is None or setting.pinning is not Pinning.PORTS:
            return None
        arcs = planner_of(topology, setting.order).plan(jobs).arcs
        own, source, target = (
            np.concatenate([getattr(job, name) for job in jobs])
            for name in ("udp_port", "source", "target")
        )
        found = choose_ports(EcmpHash(topology, Routes.of(topology)), source, target, arcs, own)
        chosen = np.where(found.udp_port < 0, own, found.udp_port)
        return tuple(np.split(chosen, np.cumsum([len(job) for job in jobs])[:-1]))

    def rotates(self, topology: Topology) -> bool:
        """Say whether the topology has `rotate: true`."""
        setting = setting_of(topology)
        return setting is not None and setting.rotate

    def late_ps(
        self, topology: Topology, jobs: Sequence[DeclaredJob], starts_ps: Sequence[int]
    ) -> tuple[int, ...]:
        """Return how much later than `starts_ps` jobs start, in fabric ps."""
        setting = setting_of(topology)
        assert setting is not None
        plan = planner_of(topology, setting.order).plan(jobs)
        starts = [ps / PS_PER_S for ps in starts_ps]
        late = late_starts(Fabric.of(topology), plan, starts)
        return tuple(round(each * PS_PER_S) for each in late)


PORTS = PlannedPorts()
