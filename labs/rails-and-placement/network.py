"""What a job sends, in virtual time: how long it takes, and what links really carried."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import yaml

from controller.program import CompiledProgram
from labs import LabError
from mechanisms.program import FABRIC
from mechanisms.switch_programs import compile_for
from simulator.runner import Simulation
from topologies.model import Role
from workloads.loader import read_run

from .job import Job, Messages

PS_PER_US = 1_000_000


@dataclass(frozen=True)
class Played:
    """How long until the last byte arrived (us), and the bytes that leaves sent to spines."""

    took_us: float
    spine_bytes: int


def played(
    mapping: Mapping[str, Any], job: Job, messages: Messages, seed: int,
    program: CompiledProgram | None = None,
) -> Played:  # fmt: skip
    """Play messages between servers; what stays in a server takes no time here."""
    data = deepcopy(dict(mapping))
    data["topology"].update(groups=job.groups, hosts_per_group=job.servers, rails=job.rails)
    data["traffic"] = [
        {"message": {"from": f"h{a[0] + 1}:{a[1]}", "to": f"h{b[0] + 1}:{b[1]}", "bytes": f"{n}B"}}
        for (a, b), n in sorted(messages.items())
        if a[0] != b[0]
    ]
    if not data["traffic"]:
        return Played(0.0, 0)
    run = read_run(yaml.safe_dump(data))
    program = program or CompiledProgram.of(compile_for(run.topology)(FABRIC))
    simulation = Simulation(run, program, seed=seed)
    assert run.until_ps is not None
    simulation.advance(run.until_ps)
    done = simulation.engine.message_times(0, len(simulation.traffic.messages))["done"]
    if len(done) == 0 or int(done.min()) < 0 or int(done.max()) > run.until_ps:
        raise LabError(f"not all messages arrived within {run.until_ps // PS_PER_US} us")
    spine = 0
    for switch in run.topology.switches:
        if switch.role is not Role.LEAF:
            continue
        core = simulation.fabric.switches[switch.name].device.core
        for port in run.topology.ports_of(switch.name):
            if run.topology.is_switch(port.peer.node):
                spine += core.port_stats(port.number).tx_bytes
    return Played(int(done.max()) / PS_PER_US, spine)
