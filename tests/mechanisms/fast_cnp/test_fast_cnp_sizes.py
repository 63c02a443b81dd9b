"""Room for all sources of a fabric: the program is built for it, and takes all entries."""

from __future__ import annotations

import pytest

import topologies
from compiler import compile_p4
from controller import CompiledProgram, FabricPolicy
from controller.entries import DefaultEntry, TableEntry, encode
from controller.fabric_state import FabricModel, desired_entries
from mechanisms.fast_cnp.mechanism import SOURCES
from mechanisms.program import FABRIC, job
from mechanisms.registry import defines
from simulator.fabric import target_facts
from softswitch import Switch
from softswitch.core import CoreConfig
from softswitch.p4runtime.protos import p4r
from topologies import Topology

TREE = """\
time_scale: 1
generator: fat_tree
k: {k}
link: {{rate: 400Gbps, delay: 500ns, queue: 4MB}}
classes: {{roce: {{dscp: 26, queue: 3, {uses}}}, rest: {{queue: 0}}}}
"""


def tree(k: int, uses: str = "fast_cnp: true") -> Topology:
    return topologies.loads(TREE.format(k=k, uses=uses))


@pytest.mark.parametrize("k", [4, 16])
def test_what_fits_the_module_s_own_room_is_built_as_ever(k: int) -> None:
    assert defines(tree(k)) == ("PROFILE", "WITH_FABRIC", "WITH_FAST_CNP")
    assert job(tree(k)).defines == defines(tree(k))


def test_a_fabric_without_fast_cnps_asks_for_no_room() -> None:
    assert defines(tree(26, "ecn: 200kB")) == ("PROFILE", "WITH_FABRIC", "WITH_DCQCN")


def test_each_switch_of_a_larger_fabric_takes_all_its_sources() -> None:
    topology = tree(26)
    hosts = len(topology.hosts)
    assert hosts > SOURCES
    assert job(topology).defines[-1] == "FAST_CNP_SOURCES=8192"
    compiled = compile_p4(FABRIC, defines=job(topology).defines)
    program = CompiledProgram.of(compiled)
    facts, policy = target_facts(topology), FabricPolicy.of(topology)
    model = FabricModel(topology, program.p4info, facts, policy)
    entries = list(desired_entries(model, topology.switches[0].name))
    sources = [e for e in entries if isinstance(e, TableEntry) and e.table == "fast_cnp_source"]
    assert len(sources) == hosts
    updates = [
        p4r.Update(
            type=p4r.Update.MODIFY if isinstance(entry, DefaultEntry) else p4r.Update.INSERT,
            entity=encode(entry, program.p4info),
        )
        for entry in entries
    ]
    config = CoreConfig(cpu_port=255)
    with Switch.from_json(compiled.json_text.encode(), compiled.p4info, config=config) as switch:
        switch.write(updates)  # raises WriteError with whatever is refused
