"""Topologies that DPFR does not fit: what `weft topo check` says, and that it says nothing else."""

from __future__ import annotations

import re

import pytest

import topologies
from mechanisms.dpfr.mechanism import MECHANISM
from topologies.errors import TopologyError
from topologies.lint.findings import Remark, Severity

LINK = "link: {rate: 400Gbps, delay: 500ns, queue: 1MB}"
RING = """
switches: [s1, s2, s3{more}]
hosts: [h1, h2, h3]
links:
  - {{a: h1, b: "s1:1"}}
  - {{a: h2, b: "s2:1"}}
  - {{a: h3, b: "s3:1"}}
  - {{a: "s1:2", b: "s2:2"}}
  - {{a: "s2:3", b: "s3:3"}}
{links}
"""
CLOSED = '  - {a: "s3:2", b: "s1:3"}'


def remarks(shape: str) -> list[Remark]:
    text = f"time_scale: 1\n{shape}\n{LINK}\ndpfr: true\n"
    return list(MECHANISM.remarks(topologies.loads(text)))


@pytest.mark.parametrize(
    "shape",
    [
        "generator: leaf_spine\nspines: 2\nleaves: 3\nhosts_per_leaf: 1",
        "generator: leaf_spine\nspines: 1\nleaves: 2\nlinks_per_spine: 2\nhosts_per_leaf: 1",
        "generator: leaf_spine\nspines: 64\nleaves: 2\nhosts_per_leaf: 1",
        "generator: fat_tree\nk: 4",
        "generator: rail\ngroups: 2\nrails: 4\nspines: 2\nhosts_per_group: 2",
        "generator: dual_plane\nspines: 2\nleaves: 2\nhosts_per_leaf: 2",
        "generator: two_dc\nspines: 2\nleaves: 2\nborders: 2\nhosts_per_leaf: 2\n"
        "long_link: {length: 10km}",
    ],
)
def test_fabrics_with_two_shortest_ways_between_leaves_fit(shape: str) -> None:
    assert remarks(shape) == []


@pytest.mark.parametrize(
    ("shape", "severity", "says"),
    [
        ("generator: single\nhosts: 3", Severity.ERROR, "no two switches with hosts are joined"),
        (
            "generator: rail\ngroups: 1\nrails: 4\nspines: 0\nhosts_per_group: 2",
            Severity.ERROR,
            "no two switches with hosts are joined",
        ),
        (
            "generator: leaf_spine\nspines: 65\nleaves: 2\nhosts_per_leaf: 1",
            Severity.ERROR,
            "s1 has 65 links to switches, and DPFR numbers 64",
        ),
        (
            RING.format(more="", links=CLOSED),
            Severity.ERROR,
            r"s1 has no shortest way to s2 without the link s1:2-s2:2 \(2 more such links\)",
        ),
        (RING.format(more="", links=""), Severity.WARNING, "no switch has two ways to any leaf"),
        (
            "generator: leaf_spine\nspines: 1\nleaves: 3\nhosts_per_leaf: 1",
            Severity.WARNING,
            "no switch has two ways to any leaf",
        ),
    ],
)
def test_others_are_refused_or_warned_of_in_one_line(
    shape: str, severity: Severity, says: str
) -> None:
    (found,) = remarks(shape)
    assert (found.severity, found.path) == (severity, ("dpfr",))
    assert re.search(says, found.message), found.message
    assert found.right


@pytest.mark.parametrize(
    ("said", "right"),
    [
        ("{validity: 1}", "validity: 6 would do"),
        ("{refresh: 200}", "validity: 8 would do"),
        ("{refresh: 16384, validity: 14}", "validity: 15 would do"),
        ("{refresh: 16384, validity: 14, copies: 15}", "validity: 15 would do"),
    ],
)
def test_what_is_repeated_too_late_names_a_validity_that_would_do(said: str, right: str) -> None:
    shape = "generator: leaf_spine\nspines: 2\nleaves: 2\nhosts_per_leaf: 1"
    with pytest.raises(TopologyError, match=right):
        topologies.loads(f"time_scale: 1\n{shape}\n{LINK}\ndpfr: {said}\n")
