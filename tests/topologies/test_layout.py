"""Drawings: nothing lies on anything else, tiers are in rows, what belongs together is together."""

from __future__ import annotations

import itertools

import pytest

import topologies
from topologies.layout import SWITCH_WIDTH, place, row_title

LARGE = """\
time_scale: 1
generator: fat_tree
k: 8
link: {rate: 400Gbps, delay: 500ns, queue: 1MB}
"""


@pytest.mark.parametrize("name", [*topologies.available(), "large"])
def test_every_node_has_a_place_of_its_own(name: str) -> None:
    net = topologies.loads(LARGE) if name == "large" else topologies.load(name)
    layout = place(net)
    assert set(layout.places) == {node.name for node in (*net.switches, *net.hosts)}
    for row in layout.rows:
        nodes = layout.in_row(row)
        for left, right in itertools.pairwise(nodes):
            apart = layout.places[right].x - layout.places[left].x
            least = SWITCH_WIDTH if net.is_switch(left) else 0.4
            assert apart >= least - 1e-9, (left, right)
    assert place(net) == layout


def test_rows_are_tiers() -> None:
    net = topologies.load("fattree4")
    layout = place(net)
    titles = [row_title(net, layout.in_row(row)) for row in layout.rows]
    assert titles == ["cores", "spines", "leaves", "hosts"]
    assert layout.in_row(1) == [f"s{n}" for n in range(1, 9)]
    assert layout.in_row(0) == [f"h{n}" for n in range(1, 17)]
    assert [box.name for box in layout.boxes] == ["pod 1", "pod 2", "pod 3", "pod 4"]
    for left, right in itertools.pairwise(layout.boxes):
        assert left.right <= right.left


def test_the_second_plane_hangs_below_the_hosts() -> None:
    layout = place(topologies.load("dualplane"))
    assert layout.rows == (2, 1, 0, -1, -2)
    assert layout.in_row(-1) == ["s3", "s4"]
    assert layout.places["s3"].x == layout.places["s1"].x
