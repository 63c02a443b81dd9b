"""Routes towards leaves: known fabrics, and repaired ones against those computed from nothing."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

import topologies
from controller.leaf_routes import Routes, Way, packet_ps
from tests.controller.all_shortest_paths import shortest_paths
from tests.controller.random_fabrics import fabrics
from topologies import Topology

TREE = """
generator: fat_tree
time_scale: 1
k: 4
link: {rate: 100Gbps, delay: 1us, queue: 1MB, mtu: 1500B}
"""
HOP_PS = 2 * 1_000_000 + (1500 + 38) * 8 * 10  # there and back, and 10 ps a bit there


def changed_rows(before: Routes, after: Routes) -> set[str]:
    names = (switch.name for switch in before.topology.switches)
    return {name for name in names if before.row(name) is not after.row(name)}


def test_a_way_has_all_short_ports_and_the_slowest_of_their_trips() -> None:
    topology = topologies.loads(TREE)
    ways = Routes.of(topology).ways("s1")
    found = [way for _, way in ways]
    assert [leaf.name for leaf, _ in ways] == [f"s{n}" for n in range(1, 9)]
    assert found[0] == Way((), 0)
    assert found[1] == Way((3, 4), 2 * HOP_PS)
    assert set(found[2:]) == {Way((3, 4), 4 * HOP_PS)}
    assert set(ways.access_ps) == {HOP_PS}


def test_a_switch_may_have_more_ports_than_a_number_has_bits() -> None:
    topology = topologies.loads(
        "{generator: leaf_spine, time_scale: 1, spines: 1, leaves: 2, hosts_per_leaf: 1, "
        "links_per_spine: 70, link: {rate: 100Gbps, delay: 1us, queue: 1MB}}"
    )
    routes = Routes.of(topology)
    assert routes.towards("s1", "s2") == tuple(range(2, 72))
    cut = routes.with_link(topology.link_at("s1", 66), up=False)
    assert cut.towards("s1", "s2") == tuple(port for port in range(2, 72) if port != 66)
    assert Routes.of(topology, cut.down).row("s1") == cut.row("s1")


def test_a_link_touches_only_whose_ways_use_it_and_comes_back() -> None:
    topology = topologies.loads(TREE)
    whole = Routes.of(topology)
    link = topology.link_at("s1", 3)  # to the first aggregation switch of its pod, s9
    cut = whole.with_link(link, up=False)
    # s9 and the cores over it take a longer way to s1; so they are no choice for others any more.
    assert cut.ways("s2").row[0] == Way((4,), 2 * HOP_PS)
    assert cut.ways("s9").row[0] == Way((2,), 3 * HOP_PS)
    assert "s10" not in changed_rows(whole, cut)
    assert all(cut.ways("s3").row[n] is whole.ways("s3").row[n] for n in range(1, 8))
    again = cut.with_link(link, up=True)
    assert [again.row(each.name) for each in topology.switches] == [
        whole.row(each.name) for each in topology.switches
    ]


def test_what_is_so_already_and_a_hosts_link_change_no_row() -> None:
    topology = topologies.loads(TREE)
    whole = Routes.of(topology)
    link = topology.link_at("s1", 3)
    assert whole.with_link(link, up=True) is whole
    cut = whole.with_link(link, up=False)
    assert cut.with_link(link, up=False) is cut
    without = whole.with_link(topology.link_at("h1"), up=False)
    assert without.down == {topology.link_at("h1")} and changed_rows(whole, without) == set()


def slowest_ps(topology: Topology, routes: Routes, switch: str, leaf: str) -> int:
    """Return the slowest round trip, found by walking every way."""
    if switch == leaf:
        return 0
    found = []
    for port in routes.towards(switch, leaf):
        link = topology.link_at(switch, port)
        beyond = slowest_ps(topology, routes, topology.peer(switch, port).node, leaf)
        found.append(topology.there_and_back_ps(link) + packet_ps(link) + beyond)
    return max(found)


@settings(deadline=None)  # other tests share the processor
@given(data=st.data())
def test_repaired_routes_are_those_computed_anew(data: st.DataObject) -> None:
    topology = data.draw(fabrics())
    routes = Routes.of(topology)
    for link in data.draw(st.lists(st.sampled_from(topology.links), max_size=12)):
        before = routes
        routes = routes.with_link(link, up=link in routes.down)
        anew = Routes.of(topology, routes.down)
        paths = shortest_paths(topology, routes.down)
        for switch in topology.switches:
            row = routes.row(switch.name)
            assert row == anew.row(switch.name)
            assert (row is before.row(switch.name)) == (row == before.row(switch.name))
            for leaf, way in routes.ways(switch.name):
                assert way.ports == paths.towards(switch.name, leaf.name)
                assert way.round_trip_ps == slowest_ps(topology, routes, switch.name, leaf.name)
            unreached = [n for n, way in enumerate(row) if way is None]
            assert all(not paths.towards(switch.name, routes.leaves[n].name) for n in unreached)
