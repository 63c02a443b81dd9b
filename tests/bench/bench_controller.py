"""What the controller spends on a fabric: to set it up, and on a link that goes down or comes up.

    python tests/bench/bench_controller.py [--json] [--k 4 8 16] [--mechanisms NAME ...]
                                           [--links 12] [--install]

Fat trees of k-port switches, CPU time of this process, in three kinds of fabric: one whose classes
ask for no mechanism, and those that use one of `--mechanisms` each. An event counts from
`LinkChanged` to the writes that follow from it (`ControlLoop.handle`); sending them is not part of
it. Links of each kind (a host's, leaf to aggregation, aggregation to core) are spread evenly over
the fabric; each goes down and comes up again, and medians over all of both are told. `entries`:
what `FabricReady` costs for all switches at once. `--install` also makes switches in the simulator
and writes to them: `whole` is everything, from the topology to the last write.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass

import command_line

import topologies
from compiler import compile_p4
from controller.fabric_state import FabricModel, FabricReady, LinkChanged
from controller.loop import ControlLoop
from controller.policy import FabricPolicy
from controller.program import CompiledProgram
from mechanisms.program import FABRIC
from mechanisms.registry import defines
from simulator.controller_link import ControlPlane
from simulator.fabric import Fabric, target_facts
from topologies.model import Link, Role, Topology

TREE = """
generator: fat_tree
time_scale: 1
k: {k}
link: {{rate: 400Gbps, delay: 500ns, queue: 32MB, mtu: 4200B}}
classes:
  roce: {{dscp: 26, queue: 3, lossless: true{uses}}}
  rest: {{queue: 0}}
"""
USES = {"dcqcn": ", ecn: 200kB", "fast_cnp": ", fast_cnp: true"}
GOAL_MS = 20.0  # an event with 1024 hosts
GOAL_HOSTS = 1024


@dataclass(frozen=True)
class Result:
    """One fabric. `event_ms`: medians by the kind of link; `worst_ms`: the dearest event of all.

    `writes`: the median of an event's updates, by the kind of link. `whole_s`: None if not asked.
    """

    mechanism: str
    hosts: int
    switches: int
    entries_s: float
    entries: int
    event_ms: Mapping[str, float]
    worst_ms: Mapping[str, float]
    writes: Mapping[str, float]
    whole_s: float | None


def measure(k: int, mechanism: str, *, links: int = 12, install: bool = False) -> Result:
    """Set up a fat tree of k-port switches, and let `links` links of each kind fail and return."""
    started = time.process_time()
    topology = topologies.loads(TREE.format(k=k, uses=USES.get(mechanism, "")))
    program = CompiledProgram.of(compile_p4(FABRIC, defines=defines(topology)))
    whole = None
    if install:
        ControlPlane(Fabric(topology, program), program).bring_up()
        whole = time.process_time() - started
    facts, policy = target_facts(topology), FabricPolicy.of(topology)
    loop = ControlLoop(FabricModel(topology, program.p4info, facts, policy))
    names = [switch.name for switch in topology.switches]
    started = time.process_time()
    ready = loop.handle(FabricReady(dict.fromkeys(names, ())), 0)
    entries_s = time.process_time() - started
    spent: dict[str, list[float]] = {}
    written: dict[str, list[int]] = {}
    for kind, found in kinds_of_links(topology).items():
        for link in evenly(found, links):
            for up in (False, True):
                started = time.process_time()
                work = loop.handle(LinkChanged(link, up), 0)
                spent.setdefault(kind, []).append((time.process_time() - started) * 1e3)
                written.setdefault(kind, []).append(sum(map(len, work.planned.values())))
    return Result(
        mechanism,
        len(topology.hosts),
        len(names),
        entries_s,
        sum(map(len, ready.planned.values())),
        {kind: statistics.median(each) for kind, each in spent.items()},
        {kind: max(each) for kind, each in spent.items()},
        {kind: statistics.median(each) for kind, each in written.items()},
        whole,
    )


def kinds_of_links(topology: Topology) -> dict[str, list[Link]]:
    """Return a fat tree's links by what they join, in the topology's order."""
    found: dict[str, list[Link]] = {"host": [], "leaf-agg": [], "agg-core": []}
    for link in topology.links:
        ends = [end.node for end in (link.a, link.b) if topology.is_switch(end.node)]
        roles = {topology.switch(name).role for name in ends}
        kind = "host" if len(ends) == 1 else "leaf-agg" if Role.LEAF in roles else "agg-core"
        found[kind].append(link)
    return found


def evenly(links: Sequence[Link], count: int) -> Iterator[Link]:
    """Up to `count` of the links, spread evenly over all, the first one included."""
    count = min(count, len(links))
    return (links[number * len(links) // count] for number in range(count))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--k", type=command_line.count, nargs="+", default=[4, 8, 16])
    parser.add_argument("--links", type=command_line.count, default=12, help="of each kind")
    parser.add_argument("--install", action="store_true", help="make the switches, and write")
    known = ["none", *USES]
    parser.add_argument("--mechanisms", nargs="+", choices=known, default=known, metavar="NAME")
    arguments = parser.parse_args()
    found = []
    for k in arguments.k:
        for mechanism in arguments.mechanisms:
            try:
                each = measure(k, mechanism, links=arguments.links, install=arguments.install)
            except topologies.TopologyError as error:
                parser.error(str(error))
            found.append(each)
            if not arguments.json:
                print(text(each), flush=True)
    if arguments.json:
        goals = {"goal_ms": GOAL_MS, "goal_hosts": GOAL_HOSTS}
        print(json.dumps({"fabrics": [asdict(each) for each in found], **goals}))


def text(result: Result) -> str:
    """One fabric in lines."""
    kinds = (
        f"    {kind:9} {median:8.2f} ms, {result.writes[kind]:.0f} updates "
        f"(dearest {result.worst_ms[kind]:.2f} ms)"
        for kind, median in result.event_ms.items()
    )
    whole = "" if result.whole_s is None else f", whole set-up {result.whole_s:.1f} s"
    head = (
        f"{result.hosts} hosts, {result.switches} switches, mechanism {result.mechanism}: "
        f"{result.entries} entries in {result.entries_s:.2f} s{whole}"
    )
    return "\n".join((head, *kinds))


if __name__ == "__main__":
    command_line.run(main)
