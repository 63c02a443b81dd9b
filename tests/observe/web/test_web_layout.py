"""Drawings of topologies: everything is inside, nothing on top of each other, links meet ports."""

from __future__ import annotations

import itertools

import pytest
import yaml

import topologies
from observe.web.layout import LEAST_WIDTH, Layout, Node, Side, layout
from topologies import Topology

LARGE = """
description: the largest that the page is made for
time_scale: 10000
generator: leaf_spine
spines: 8
leaves: 32
hosts_per_leaf: 2
link: {rate: 400Gbps, delay: 500ns, queue: 1MB}
"""
NAMES = [*topologies.available(), "large"]


def topology_of(name: str) -> Topology:
    return topologies.loads(LARGE) if name == "large" else topologies.load(name)


def overlap(a: Node, b: Node) -> bool:
    wide, high = (a.width + b.width) / 2, (a.height + b.height) / 2
    return abs(a.x - b.x) < wide and abs(a.y - b.y) < high


@pytest.fixture(scope="module", params=NAMES)
def drawn(request: pytest.FixtureRequest) -> tuple[Topology, Layout]:
    topology = topology_of(request.param)
    return topology, layout(topology)


def test_every_node_has_a_place_of_its_own(drawn: tuple[Topology, Layout]) -> None:
    topology, drawing = drawn
    nodes = list(drawing.nodes.values())
    assert {node.name for node in nodes} == {
        *(switch.name for switch in topology.switches), *(host.name for host in topology.hosts),
    }  # fmt: skip
    assert drawing.width >= LEAST_WIDTH
    for node in nodes:
        assert node.width / 2 <= node.x <= drawing.width - node.width / 2, node
        assert node.height / 2 <= node.y <= drawing.height - node.height / 2, node
    assert [(a.name, b.name) for a, b in itertools.combinations(nodes, 2) if overlap(a, b)] == []


def test_hosts_are_at_the_bottom_and_spines_above_leaves(drawn: tuple[Topology, Layout]) -> None:
    _, drawing = drawn
    heights: dict[str, set[float]] = {}
    for node in drawing.nodes.values():
        heights.setdefault(node.kind, set()).add(node.y)
    assert all(len(places) == 1 for places in heights.values())
    order = [kind for kind in ("core", "spine", "leaf", "host") if kind in heights]
    places = [min(heights[kind]) for kind in order]
    assert places == sorted(places)
    assert len(set(places)) == len(places)


def test_links_go_from_port_to_port(drawn: tuple[Topology, Layout]) -> None:
    topology, drawing = drawn
    assert [link for link, _ in drawing.links] == list(topology.links)
    for link, curve in drawing.links:
        assert curve.points[0] == drawing.slots[link.a].tip
        assert curve.points[-1] == drawing.slots[link.b].tip
        near, far = curve.halves()
        assert near.points[0] == curve.points[0]
        assert far.points[0] == curve.points[-1]
        assert near.points[-1] == far.points[-1]
        for x, y in (*near.points, *far.points):
            assert 0 <= x <= drawing.width
            assert y <= drawing.height
        assert near.points[-1][1] >= 0


def test_ports_stand_on_their_node_and_apart(drawn: tuple[Topology, Layout]) -> None:
    _, drawing = drawn
    assert len({(slot.x, slot.y) for slot in drawing.slots.values()}) == len(drawing.slots)
    for end, slot in drawing.slots.items():
        node = drawing.nodes[end.node]
        assert abs(slot.x - node.x) <= node.width / 2 + 0.01, end
        assert abs(slot.y - node.y) <= node.height / 2 + 0.01, end


def test_groups_are_apart(drawn: tuple[Topology, Layout]) -> None:
    topology, drawing = drawn
    groups = {switch.group for switch in topology.switches if switch.group}
    assert {band.name for band in drawing.bands} == groups
    for band in drawing.bands:
        for node in drawing.nodes.values():
            inside = band.x <= node.x <= band.x + band.width
            beside = band.y <= node.y <= band.y + band.height
            if node.group:
                assert (inside and beside) == (node.group == band.name), (band, node)


def test_planes_that_no_group_names_have_bands() -> None:
    text = yaml.safe_dump(
        {
            "time_scale": 1,
            "link": {"rate": "1Gbps", "delay": "1us", "queue": "1MB"},
            "switches": ["s1", "s2"],
            "hosts": ["h1", "h2"],
            "links": [
                {"a": f"h{host}:{leaf - 1}", "b": f"s{leaf}:{host}"}
                for host in (1, 2)
                for leaf in (1, 2)
            ],
        }
    )
    drawing = layout(topologies.loads(text))
    assert [band.name for band in drawing.bands] == ["plane A", "plane B"]
    assert (drawing.nodes["s2"].group, drawing.nodes["h1"].group) == ("plane B", "")


def test_the_same_topology_gives_the_same_drawing() -> None:
    assert layout(topologies.load("fattree4")) == layout(topologies.load("fattree4"))


def test_a_ring_goes_around_its_middle() -> None:
    topology = topologies.load("triangle")
    drawing = layout(topology)
    sides = {str(end): slot.side for end, slot in drawing.slots.items()}
    assert (sides["s1:2"], sides["s2:2"]) == (Side.RIGHT, Side.LEFT)
    assert (sides["s1:3"], sides["s3:3"]) == (Side.TOP, Side.TOP)
