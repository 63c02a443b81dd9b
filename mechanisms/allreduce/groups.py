"""Groups of a run file's `algorithm: in-network`: jobs of the topology, and workers on hosts.

What a topology does not say is chosen for speed: packets of 256 lanes, of which two are added and
checked, and slots for what is under way at line rate, there and back to the root, and half more.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from mechanisms.allreduce.plan_error import PlanError
from mechanisms.allreduce.settings import KEY, TREES, AllReduce, Job
from mechanisms.allreduce.trees import LANE_BYTES, JobPlan, plan_of
from mechanisms.allreduce.workers import server_of_job, worker_of
from topologies.extensions import Settings
from topologies.model import Link, Topology
from workloads.in_network import GroupError, GroupWorker
from workloads.model import Group
from workloads.paths import OVERHEAD, Paths

HEADERS = 20 + 8 + 16
"""Of an IP packet with lanes: IPv4, UDP, ours."""

BLOCK_LEAST, BLOCK_MOST = 1, 1024
"""Lanes of a block: as many as fit all links, a power of two."""

PROGRAM, SERVER = "allreduce", "allreduce_server"
"""Of hostagent/programs."""

ADDED, SENT = 2, 256
"""Lanes of a packet that switches add, and that it has, where a topology does not say."""

SLOTS_LEAST, SLOTS_MOST = 16, 1024
SLOTS_OF_ALL = 8192
"""Slots of a group, and of all groups of a run together, where a topology does not say."""

_PS_BITS = 8 * 10**12


def name_of(group: int) -> str:
    """Return the name of a group's job."""
    return f"run-{group}"


@dataclass(frozen=True)
class Groups:
    """Satisfies `workloads.in_network.Aggregation`."""

    def with_groups(self, topology: Topology, groups: Sequence[Group]) -> Topology:
        """Return the topology with a job a group. Raises GroupError."""
        said: AllReduce | None = topology.setting(KEY)
        servers = said.best_effort.servers if said is not None else ()
        if servers and len(servers) < len(groups):
            raise GroupError(
                f"{len(groups)} groups need a server each, and allreduce: best_effort: servers: "
                f"names {len(servers)}"
            )
        slots = self._slots(topology, groups, said)
        setting = said or AllReduce(ADDED, SENT, slots * len(groups))
        names = {job.name for job in setting.jobs}
        taken = next((n for n in range(len(groups)) if name_of(n) in names), None)
        if taken is not None:
            raise GroupError(f"the topology has a job {name_of(taken)} already: name it otherwise")
        jobs = tuple(
            Job(
                name_of(number),
                tuple(each.host for each in group.members),
                None,
                slots,
                TREES,
                None,
                None,
                server=servers[number] if servers else None,
            )
            for number, group in enumerate(groups)
        )
        values = {key: value for key, value in topology.settings if key != KEY}
        values[KEY] = replace(setting, jobs=(*setting.jobs, *jobs))
        made = replace(topology, settings=Settings.of(**values))
        try:
            plan_of(made)
        except PlanError as error:
            ours = [n for n in range(len(groups)) if name_of(n) in error.path]
            message = f"{error.subject}: {error.message}; {error.right}"
            raise GroupError(message, ours[0] if ours else None) from None
        return made

    def payload(self, topology: Topology) -> int:
        """Return the bytes of a packet's lanes."""
        setting: AllReduce = topology.setting(KEY)
        return LANE_BYTES * setting.wire_lanes

    def block_payload(self, topology: Topology, group: int) -> int:
        """Return the bytes of a block's lanes."""
        links = _links(topology, plan_of(topology).jobs[name_of(group)])
        most = (min(link.mtu_bytes for link in links) - HEADERS) // LANE_BYTES
        return LANE_BYTES * min(BLOCK_MOST, 1 << max(BLOCK_LEAST, most).bit_length() - 1)

    def workers(self, topology: Topology, group: int) -> Iterator[GroupWorker]:
        """Yield the worker of each rank."""
        job = plan_of(topology).jobs[name_of(group)]
        block_lanes = self.block_payload(topology, group) // LANE_BYTES
        rate_bps = min(link.rate_bps for link in _links(topology, job))
        for interface in job.workers:
            worker = worker_of(topology, job.name, interface.host)
            settings = {
                **vars(worker),
                "gateway": int(interface.gateway),
                "block_lanes": block_lanes,
                "rate_bps": rate_bps,
                "adapt": worker.best_effort,
            }
            yield GroupWorker(interface.host, PROGRAM, settings)

    def servers(self, topology: Topology, group: int) -> Iterator[GroupWorker]:
        """Yield the server of a group that is best effort."""
        found = server_of_job(topology, name_of(group))
        if found is not None:
            host, server = found
            gateway = int(topology.host(host).interfaces[0].gateway)
            yield GroupWorker(host, SERVER, {**vars(server), "gateway": gateway, "adapt": 1})

    def _slots(self, topology: Topology, groups: Sequence[Group], said: AllReduce | None) -> int:
        """Return the slots of each group, a power of two."""
        best_effort = said is not None and bool(said.best_effort.servers)
        if said is not None and best_effort and said.best_effort.window is not None:
            return said.best_effort.window
        if said is not None and not best_effort:
            free = said.slots - sum(job.slots for job in said.jobs)
            share = free // len(groups)
            if share < 1:
                raise GroupError(
                    f"{len(groups)} groups need a slot each, and of allreduce: slots: {said.slots} "
                    f"{free} are free"
                )
            return 1 << share.bit_length() - 1
        wanted = max(_slots_at_line_rate(topology, group) for group in groups)
        most = max(SLOTS_OF_ALL // len(groups), SLOTS_LEAST)
        return min(1 << (wanted - 1).bit_length(), 1 << most.bit_length() - 1, SLOTS_MOST)


def _links(topology: Topology, job: JobPlan) -> set[Link]:
    """Return the links of a job's trees, those of its workers included."""
    own = {topology.link_at(each.host, each.number) for each in job.workers}
    return own.union(*(tree.links for tree in job.all_trees))


def _slots_at_line_rate(topology: Topology, group: Group) -> int:
    """Return how many packets are under way between a worker, the root and back, and half more."""
    members = group.members
    near = np.zeros(len(members) - 1, dtype=np.int64)
    far = np.arange(1, len(members), dtype=np.int64)
    paths = Paths(topology).between(members, near, far)
    there_and_back_ps = int(paths.delay_ps.max())
    rate = max(topology.link_at(each.host, each.number).rate_bps for each in members)
    packet_ps = (LANE_BYTES * SENT + OVERHEAD) * _PS_BITS // rate
    hops = max(len(links) for links in paths.links)
    return max(SLOTS_LEAST, 3 * (there_and_back_ps // packet_ps + 2 * hops) // 2)
