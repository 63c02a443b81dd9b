"""A simulated fabric in which links and switches fail: switches hold what the controller thinks."""

from __future__ import annotations

from controller.entries import Entry, TableEntry, decode
from mechanisms import registry
from mechanisms.allreduce.entries import EDGE_TABLE, TREE_TABLE
from mechanisms.allreduce.life import Jobs
from simulator.runner import Simulation
from softswitch.p4runtime.protos import p4r
from tests.mechanisms.dpfr.cuts import program
from workloads.loader import read_run

RUN = """\
topology:
  generator: fat_tree
  k: 4
  link: {rate: 100Gbps, delay: 500ns, queue: 1MB}
  allreduce: {lanes: 2, wire_lanes: 256, jobs: {a: {slots: 64}, b: {workers: [h1, h3]}}}
controller: {delay: 50us}
until: 3ms
events:
  - {at: 200us, link: s1-s9, do: down}
  - {at: 400us, switch: s10, do: kill, lasts: 1ms}
  - {at: 600us, link: s1-s9, do: up}
  - {at: 700us, link: s2-s9, do: down, lasts: 100us}
  - {at: 2ms, switch: s17, do: down}
traffic:
  - message: {from: h1, to: h16, bytes: 200kB}
"""


def held(simulation: Simulation, switch: str) -> set[Entry | None]:
    """Return a switch's entries of edges and trees."""
    info = simulation.control.program.p4info
    tables = [p4r.TableEntry(table_id=info.tables[name].id) for name in (EDGE_TABLE, TREE_TABLE)]
    found = simulation.fabric.switches[switch].device.read(
        p4r.Entity(table_entry=each) for each in tables
    )
    return {decode(each, info) for each in found}


def test_switches_hold_the_trees_that_the_jobs_have() -> None:
    run = read_run(RUN)
    simulation = Simulation(run, program(registry.defines(run.topology)))
    outcome = simulation.run()
    jobs = simulation.control.loop.learners["allreduce"]
    assert isinstance(jobs, Jobs)
    assert outcome.end.totals["allreduce_rerouted"] == jobs.totals()["allreduce_rerouted"] > 0
    learned = simulation.control.model.learned
    for switch in run.topology.switches:
        assert held(simulation, switch.name) == set(learned.get(switch.name, {}).values())
    wanted: dict[str, set[TableEntry]] = {}
    for name, running in jobs.running.items():
        for bits, tree in enumerate(running.trees):
            assert "s17" not in tree.nodes or bits in jobs.dead(name)
            for at, entries in jobs.wanted(name, bits).items():
                wanted.setdefault(at, set()).update(entries)
    assert wanted == {name: set(found.values()) for name, found in learned.items() if found}
