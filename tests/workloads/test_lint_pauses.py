"""Deadlocks that pauses can make, found in routes before a run, and made by the run itself.

h1..h5 - s1..s5, a ring of 100 Gb/s; port 1 leads to the host, 2 onwards, 3 back
"""

from __future__ import annotations

import itertools
from collections import Counter
from random import Random

import pytest
import rustworkx as rx
import yaml

from controller.program import CompiledProgram
from mechanisms.program import FABRIC
from mechanisms.switch_programs import compile_for
from simulator.result_blocking import Queue, analyse, waiting_rows
from simulator.runner import Simulation
from topologies.model import Topology
from topologies.pause_cycles import PauseCycles
from workloads.lint_pauses import pause_faults
from workloads.loader import read_run

RING = ((1, 2), (2, 3), (3, 4), (4, 5), (5, 1))
TURNS = ((1, 3), (2, 4), (3, 5), (4, 1), (5, 2))


def run_text(
    turns: tuple[tuple[int, int], ...] = TURNS, links: tuple[tuple[int, int], ...] = RING,
    transport: str = "", **of_buffer: str,
) -> str:  # fmt: skip
    """Return a run in which each pair of hosts sends, the last one in the class of its DSCP 34."""
    hosts = [{"a": f"h{n}", "b": f"s{n}:1"} for n in range(1, 6)]
    ring = [{"a": f"s{a}:2", "b": f"s{b}:3"} for a, b in links]
    return yaml.safe_dump(
        {
            "topology": {
                "switches": [f"s{n}" for n in range(1, 6)],
                "hosts": [f"h{n}" for n in range(1, 6)],
                "link": {"rate": "100Gbps", "delay": "1us", "queue": "4MB", "mtu": "4200B"},
                "links": hosts + ring,
                "classes": {
                    "cnp": {"dscp": 48, "queue": 7},
                    "roce": {"dscp": 26, "queue": 3, "lossless": True, "weight": 1},
                    "other": {"dscp": 34, "queue": 4, "lossless": True, "weight": 1},
                    "rest": {"queue": 0},
                },
            },
            "buffer": {"shared": "1MB", "alpha": "1/8", "headroom": "formula", **of_buffer},
            "until": "1ms",
            **yaml.safe_load(transport or "{}"),
            "traffic": [
                {"incast": {"to": f"h{b}", "from": [f"h{a}"], "persistent": True}} for a, b in turns
            ],
        }
    )


def in_other_class(text: str, number: int) -> str:
    """Return the same run with one entry of its traffic in the second lossless class."""
    data = yaml.safe_load(text)
    data["traffic"][number]["incast"]["dscp"] = 34
    return yaml.safe_dump(data)


def test_a_cycle_is_named_with_its_flows() -> None:
    (remark,) = pause_faults(read_run(run_text()))
    assert remark.subject == "class roce"
    assert "s1:2 -> s2:2 -> s3:2 -> s4:2 -> s5:2 -> s1:2" in remark.message
    assert all(f"h{a} to h{b}" in remark.message for a, b in TURNS)
    assert "nothing would end it" in remark.message
    assert "watchdog: 1ms" in remark.right


def test_a_watchdog_is_mentioned_where_there_is_one() -> None:
    (remark,) = pause_faults(read_run(run_text(watchdog="1ms")))
    assert "only the watchdog would end it" in remark.message


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(run_text(TURNS[:4]), id="one flow less"),
        pytest.param(run_text(links=RING[:4]), id="one link less"),
        pytest.param(in_other_class(run_text(), 2), id="a flow in another class"),
    ],
)
def test_what_breaks_the_cycle_is_not_reported(text: str) -> None:
    assert list(pause_faults(read_run(text))) == []


def test_acknowledgements_wait_in_their_own_class() -> None:
    sent = "transport: {congestion_control: none}"
    half = in_other_class(run_text(transport=sent), 2)
    assert list(pause_faults(read_run(half))) == []
    against = tuple((b, a) for a, b in TURNS)
    (remark,) = pause_faults(read_run(run_text((TURNS[0], *against[1:]), transport=sent)))
    assert "acknowledgements of h" in remark.message
    elsewhere = f"{sent[:-1]}, ack_class: cnp}}"
    assert (
        list(pause_faults(read_run(run_text((TURNS[0], *against[1:]), transport=elsewhere)))) == []
    )


def test_cycles_are_those_of_all_shortest_ways() -> None:
    """Beside a search that lists each shortest way by itself, on random fabrics."""
    random, found = Random(5), {True: 0, False: 0}
    for _ in range(80):
        topology = _random_fabric(random)
        names = [each.name for each in topology.switches]
        pairs = random.sample(list(itertools.permutations(names, 2)), 16)
        graph: rx.PyGraph[str, None] = rx.PyGraph()
        graph.add_nodes_from(names)
        index = {name: n for n, name in enumerate(names)}
        for link in topology.links:
            if link.a.node in index and link.b.node in index:
                graph.add_edge(index[link.a.node], index[link.b.node], None)
        waits: rx.PyDiGraph[int | None, None] = rx.PyDiGraph()
        queues: dict[tuple[int, int], int] = {}
        for source, target in pairs:
            for way in rx.all_shortest_paths(graph, index[source], index[target]):
                hops = [queues.setdefault(hop, len(queues)) for hop in itertools.pairwise(way)]
                waits.extend_from_edge_list(list(itertools.pairwise(hops)))
        expected = not rx.is_directed_acyclic_graph(waits)
        cycle = PauseCycles(topology).of(pairs)
        assert bool(cycle) == expected
        found[expected] += 1
        for here, then in itertools.pairwise((*cycle, *cycle[:1])):
            assert topology.peer(here.node, here.port).node == then.node
    assert min(found.values()) > 10


def _random_fabric(random: Random) -> Topology:
    count = random.randrange(5, 9)
    names = [f"s{n}" for n in range(1, count + 1)]
    links = {(a, a % count + 1) for a in range(1, count + 1)}
    links |= {(a, b) for a, b in (random.sample(range(1, count + 1), 2) for _ in range(2))}
    links = {(min(each), max(each)) for each in links}
    port: Counter[int] = Counter()

    def end(switch: int) -> str:
        port[switch] += 1
        return f"s{switch}:{port[switch]}"

    data = {
        "switches": names,
        "hosts": [f"h{n}" for n in range(1, count + 1)],
        "link": {"rate": "100Gbps", "delay": "1us", "queue": "4MB", "mtu": "4200B"},
        "links": [{"a": f"h{n}", "b": end(n)} for n in range(1, count + 1)]
        + [{"a": end(a), "b": end(b)} for a, b in sorted(links)],
    }
    text = {"topology": data, "until": "1ms", "traffic": [{"cbr": {"from": "h1", "to": "h2",
            "rate": "1Gbps"}}]}  # fmt: skip
    return read_run(yaml.safe_dump(text)).topology


@pytest.mark.parametrize("moved", [False, True])
def test_the_run_does_what_was_foretold(moved: bool) -> None:
    run = read_run(in_other_class(run_text(), 2) if moved else run_text())
    program = CompiledProgram.of(compile_for(run.topology)(FABRIC))
    simulation = Simulation(run, program)
    simulation.advance(500_000_000)
    half = _received(simulation)
    simulation.advance(1_000_000_000)
    gained = _received(simulation) - half
    rows = [
        row
        for name, switch in simulation.fabric.switches.items()
        for row in waiting_rows(name, switch.device.core.waiting())
    ]
    deadlocks = analyse(run.topology, rows).deadlocks
    if moved:
        assert gained > 1000
        assert not deadlocks
    else:
        assert gained == 0
        assert deadlocks == (tuple(Queue(f"s{n}", 2, 3) for n in range(1, 6)),)


def _received(simulation: Simulation) -> int:
    stats = simulation.engine.flow_stats(0, len(simulation.traffic.flows))
    return int(stats["received_packets"].sum())
