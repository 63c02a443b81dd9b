"""Which links two names mean, and which interface a name means."""

from __future__ import annotations

from typing import cast

import pytest

import topologies
from emulation import capture
from emulation.link_state import NoSuchLinkError, find_links
from emulation.network import Network


@pytest.mark.parametrize(
    ("a", "b", "found"),
    [
        ("s1", "s3", ["s1:3 - s3:1"]),
        ("s3", "s1", ["s1:3 - s3:1"]),
        ("s3:1", "s1", ["s1:3 - s3:1"]),
        ("s1:4", "s4:1", ["s1:4 - s4:1"]),
        ("h1", "s1", ["h1 - s1:1"]),
    ],
)
def test_a_link_by_its_ends(a: str, b: str, found: list[str]) -> None:
    links = find_links(topologies.load("leafspine"), a, b)
    assert [f"{link.a} - {link.b}" for link in links] == found


@pytest.mark.parametrize(
    ("a", "b", "remedy"),
    [
        ("s1", "s2", "s1 has links to h1, h2, s3:1, s4:1"),
        ("s1:4", "s3", "s1 has links to"),
        ("x1", "s3", "see: links"),
    ],
)
def test_no_such_link_says_which_there_are(a: str, b: str, remedy: str) -> None:
    with pytest.raises(NoSuchLinkError, match=f"no link between {a} and {b}") as raised:
        find_links(topologies.load("leafspine"), a, b)
    assert raised.value.remedy.startswith(remedy)


class Names:
    """A network by its interfaces' names alone."""

    def interface_name(self, node: str, port: int = 0) -> str:
        return f"h-eth{port}" if node.startswith("h") else f"w1234-{node}-{port}"

    def namespace_name(self, host: str) -> str:
        return f"w1234-{host}"


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("s1-2", ("w1234-s1-2", None)),
        ("s1-eth2", ("w1234-s1-2", None)),
        ("w1234-s1-2", ("w1234-s1-2", None)),
        ("h1", ("h-eth0", "w1234-h1")),
        ("h1-eth0", ("h-eth0", "w1234-h1")),
        *((wrong, None) for wrong in ("s1", "s1-9", "s9-1", "h1-eth1", "h9", "", "-", "s1-")),
    ],
)
def test_an_interface_by_its_short_names(name: str, found: tuple[str, str | None] | None) -> None:
    topology, network = topologies.load("leafspine"), cast("Network", Names())
    if found is None:
        with pytest.raises(KeyError):
            capture.find_interface(topology, network, name)
    else:
        assert capture.find_interface(topology, network, name) == found
