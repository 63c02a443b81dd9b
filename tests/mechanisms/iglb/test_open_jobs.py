"""Jobs that send already when they are submitted keep the ports that they have."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

import topologies
from controller.jobs import DeclaredJob, FlowSet
from mechanisms.iglb.followed import Follower
from mechanisms.iglb.planner import Planner

FABRIC = (
    "time_scale: 1\ngenerator: leaf_spine\nspines: 4\nleaves: 2\nhosts_per_leaf: 4\n"
    "link: {rate: 100Gbps, delay: 1us, queue: 1MB}\niglb: {pinning: ports}\n"
)


def test_open_jobs_keep_their_ports_and_have_entries_where_these_lead_elsewhere() -> None:
    topology = topologies.loads(FABRIC)
    flow, ports = np.arange(4), np.full(4, 0xC000)
    sets = (FlowSet("ring", 0, flow, np.full(4, 10**6)),)
    new = DeclaredJob("ring", flow, flow + 4, ports, sets)
    planner, follower = Planner(topology), Follower(topology, by_ports=True)
    found = follower.follow(planner.plan((new,)), {})
    assert not found.by_entry.any() and (found.udp_port != ports).any()
    running = replace(new, is_open=True)
    kept = follower.follow(planner.plan((running,)), {})
    assert (kept.udp_port == ports).all()
    # Four flows over four spines: the hash of one port can't be right for all of them by chance.
    assert (kept.by_entry == (found.udp_port != ports)).all() and kept.by_entry.any()
