"""Shortest paths with every equally short next hop, on known and on random fabrics."""

from __future__ import annotations

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import topologies
from tests.controller.all_shortest_paths import shortest_paths
from topologies import Topology


def leaf_spine(spines: int, leaves: int) -> Topology:
    return topologies.loads(
        f"generator: leaf_spine\ntime_scale: 1\nspines: {spines}\nleaves: {leaves}\n"
        "hosts_per_leaf: 1\nlink: {rate: 1Gbps, delay: 1us, queue: 1MB}\n"
    )


def graph(switches: int, edges: list[tuple[int, int]]) -> Topology:
    """Switches without hosts; parallel links allowed."""
    ports = [0] * switches
    links = []
    for a, b in edges:
        ports[a] += 1
        ports[b] += 1
        links.append(f"  - {{a: s{a}:{ports[a]}, b: s{b}:{ports[b]}}}")
    names = ", ".join(f"s{i}" for i in range(switches))
    return topologies.loads(
        f"time_scale: 1\nlink: {{rate: 1Gbps, delay: 1us, queue: 1MB}}\nswitches: [{names}]\n"
        + ("links:\n" + "\n".join(links) if links else "links: []")
    )


def test_a_leaf_uses_all_spines_and_a_spine_one_port() -> None:
    paths = shortest_paths(leaf_spine(spines=3, leaves=2))
    assert paths.towards("s1", "s2") == (2, 3, 4)
    assert paths.towards("s3", "s1") == (1,)
    assert paths.towards("s3", "s4") == (1, 2)  # spine to spine, by any leaf
    assert paths.towards("s1", "s1") == ()


def test_without_the_last_link_there_is_no_path() -> None:
    fabric = leaf_spine(spines=1, leaves=2)
    paths = shortest_paths(fabric, {fabric.link_at("s1", 2)})
    assert paths.towards("s1", "s2") == ()
    assert paths.towards("s3", "s1") == ()
    assert paths.towards("s3", "s2") == (2,)


def test_parallel_links_are_all_used() -> None:
    assert shortest_paths(graph(2, [(0, 1), (0, 1), (1, 0)])).towards("s0", "s1") == (1, 2, 3)


EDGES = st.integers(2, 7).flatmap(
    lambda n: st.tuples(
        st.just(n),
        st.lists(
            st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)).filter(lambda e: e[0] != e[1]),
            max_size=14,
        ),
    )
)


@settings(deadline=None)  # other tests share the processor
@given(EDGES)
def test_next_hops_are_networkxs(case: tuple[int, list[tuple[int, int]]]) -> None:
    switches, edges = case
    topology = graph(switches, edges)
    reference = nx.Graph()
    reference.add_nodes_from(range(switches))
    reference.add_edges_from(edges)
    paths = shortest_paths(topology)
    for a in range(switches):
        for b in range(switches):
            found = {
                int(topology.peer(f"s{a}", port).node[1:])
                for port in paths.towards(f"s{a}", f"s{b}")
            }
            if a == b or not nx.has_path(reference, a, b):
                assert found == set()
            else:
                assert found == {path[1] for path in nx.all_shortest_paths(reference, a, b)}


@pytest.mark.parametrize("name", topologies.available())
def test_the_same_result_every_time(name: str) -> None:
    assert shortest_paths(topologies.load(name)) == shortest_paths(topologies.load(name))
