"""Every mistake in a topology file ends in one line: file, line, column, field, what is right."""

from __future__ import annotations

from pathlib import Path

import pytest

import topologies
from topologies import TopologyError

GOOD = """\
time_scale: 1
link: {rate: 1Gbps, delay: 1us, queue: 1MB}
switches: [s1, s2]
hosts: [h1]
links:
  - {a: h1, b: s1:1}
  - {a: s1:2, b: s2:1}
"""

GENERATED = """\
time_scale: 1
generator: leaf_spine
spines: 2
leaves: 2
hosts_per_leaf: 2
link: {rate: 400Gbps, delay: 500ns, queue: 1MB}
"""

# (text, what is replaced, by what, position and message of the one problem)
MISTAKES = [
    (GOOD, "time_scale: 1", "time_scal: 1", "net.yaml:1:1: time_scale: 'time_scale' is missing"),
    (GOOD, "time_scale: 1", "time_scale: 0", "net.yaml:1:1: time_scale: must be at least 1, not 0"),
    (GOOD, "time_scale: 1", "time_scale: 1.5", "1:1: time_scale: must be a whole number, not 1.5"),
    (
        GOOD,
        "rate: 1Gbps",
        "rate: 400",
        "2:8: link.rate: 400 has no unit: write 400 with one of bps",
    ),
    (
        GOOD,
        "rate: 1Gbps",
        "rate: 1gbps",
        "2:8: link.rate: 'gbps' is not a unit of a rate; did you mean",
    ),
    (GOOD, "rate: 1Gbps", "rate: fast", "2:8: link.rate: 'fast' is not a rate: write a number"),
    (GOOD, "rate: 1Gbps", "rate: 0Gbps", "2:8: link.rate: a rate must be at least 1 bps"),
    (GOOD, "delay: 1us", "delay: 5", "2:21: link.delay: 5 has no unit: write 5 with one of ps, ns"),
    (GOOD, "delay: 1us", "delay: 0.5ps", "2:21: link.delay: '0.5ps' is finer than"),
    (GOOD, "queue: 1MB", "queue: [1]", "2:33: link.queue: a size is written as a number with"),
    (GOOD, "queue: 1MB", "que: 1MB", "2:33: link.que: unknown key 'que'; did you mean 'queue'?"),
    (GOOD, ", queue: 1MB", "", "6:5: links[0]: h1-s1:1 has no queue: give it here or under 'link'"),
    (GOOD, "[s1, s2]", "[s1, s2, s1]", "3:20: switches[2]: the name 's1' is taken by switches[0]"),
    (GOOD, "hosts: [h1]", "hosts: [h1, s2]", "4:13: hosts[1]: the name 's2' is taken by switches"),
    (GOOD, "hosts: [h1]", "hosts: [h1, h2]", "4:13: hosts[1]: host 'h2' has no link: add one"),
    (
        GOOD,
        "hosts: [h1]",
        "hosts: [h1, H2]",
        "hosts[1].name: 'H2' is not a node name: a small letter",
    ),
    (GOOD, "b: s2:1", "b: s22:1", "7:15: links[1].b: no switch or host is called 's22'; did you"),
    (GOOD, "b: s2:1", "b: s2", "7:15: links[1].b: 's2' needs a port from 1 to 254: write s2:1"),
    (GOOD, "b: s2:1", "b: s2:255", "7:15: links[1].b: 's2:255' needs a port from 1 to 254"),
    (GOOD, "b: s2:1", "b: s2:x", "7:15: links[1].b: 's2:x' is not a link end"),
    (GOOD, "a: s1:2", "a: s1:1", "7:6: links[1].a: port s1:1 already has a link, links[0]"),
    (GOOD, "a: s1:2", "a: h1", "7:6: links[1].a: host h1 already has a link, links[0]"),
    (GOOD, "a: s1:2", "a: s2:2", "7:5: links[1]: both ends are at s2: a link joins two nodes"),
    (GOOD, "a: h1", "a: h1:1", "4:9: hosts[0]: no link for h1: a host's interfaces count from 0"),
    (GOOD, "a: h1", "a: h1:64", "6:6: links[0].a: a host has interfaces from 0 to 63"),
    (
        GOOD,
        "[h1]",
        "[{name: h1, interfaces: [{}, {}]}]",
        "hosts[0].interfaces[1]: no link for h1:1: add one to 'links'",
    ),
    (
        GOOD,
        "[h1]",
        "[{name: h1, address: 10.9.0.1/24, interfaces: [{}]}]",
        "hosts[0]: give address, mac and gateway either here or under 'interfaces'",
    ),
    (GOOD, "delay: 1us", "delay: 1us, length: 1km", "2:1: link: give delay or length, not both"),
    (
        GOOD,
        "delay: 1us",
        "length: 1mile",
        "2:21: link.length: 'mile' is not a unit of a length: use",
    ),
    (GOOD, "queue: 1MB", "queue: 1MB, mtu: 100B", "link.mtu: an MTU is from 576B to 9600B"),
    (GOOD, "link:", "classes: {a: {dscp: 64}}\nlink:", "classes.a.dscp[0]: must be at most 63"),
    (GOOD, "link:", "classes: {a: {queue: 8}}\nlink:", "2:15: classes.a.queue: must be at most 7"),
    (GOOD, "link:", "classes: {a: {que: 8}}\nlink:", "unknown key 'que'; did you mean 'queue'?"),
    (
        GOOD,
        "link:",
        "classes: {a: {dscp: [1, 2]}, b: {dscp: 2}}\nlink:",
        "2:34: classes.b.dscp: DSCP 2 is already in 'a': a packet has one class",
    ),
    (GOOD, "switches: [s1, s2]", "switches: []", "3:1: switches: must not be empty"),
    (GOOD, "switches: [s1, s2]", "switches: s1", "3:1: switches: must be a list"),
    (
        GOOD,
        "[s1, s2]",
        "[s1, {name: s2, role: top}]",
        "switches[1].role: must be 'leaf', 'spine', 'core' or 'border', not 'top'",
    ),
    (
        GOOD,
        "[h1]",
        "[{name: h1, address: 10.0.0.1}]",
        "hosts[0].address: '10.0.0.1' is not a host addr",
    ),
    (
        GOOD,
        "[h1]",
        "[{name: h1, mac: 01:00:00:00:00:01}]",
        "is a multicast address: make its first",
    ),
    (GOOD, "[h1]", "[{name: h1, address: 10.9.0.254/24}]", "10.9.0.254 is taken by the gateway"),
    (GOOD, "time_scale: 1", "time_scale: [", "not valid YAML"),
    (GOOD, "hosts: [h1]", "hosts: [h1]\nhosts: [h2]", "net.yaml:5:1: hosts: this key is already"),
    (
        GENERATED,
        "leaf_spine",
        "leaf_spin",
        "2:1: generator: no generator 'leaf_spin'; did you mean",
    ),
    (
        GENERATED,
        "leaf_spine",
        "torus",
        "2:1: generator: no generator 'torus'; available: single, leaf",
    ),
    (GENERATED, "spines: 2", "spines: two", "3:1: spines: must be a whole number, not 'two'"),
    (GENERATED, "leaves: 2", "leaves: 0", "4:1: leaves: must be at least 1, not 0"),
    (GENERATED, "leaves: 2\n", "", "net.yaml:1:1: leaves: 'leaves' is missing here"),
    (GENERATED, "leaves: 2", "leaf: 2", "net.yaml:4:1: leaf: unknown key 'leaf'"),
    (GENERATED, "hosts_per_leaf: 2", "hosts_per_leaf: 253", "5:1: hosts_per_leaf: a leaf has 254"),
    (GENERATED, "rate: 400Gbps, ", "", "6:1: link: no rate given: add one, as rate: 400Gbps"),
]


@pytest.mark.parametrize(("text", "old", "new", "message"), MISTAKES)
def test_a_mistake_is_placed_and_explained(text: str, old: str, new: str, message: str) -> None:
    topologies.loads(text)  # what is replaced is the only mistake
    assert old in text
    with pytest.raises(TopologyError) as caught:
        topologies.loads(text.replace(old, new, 1), file="net.yaml")
    assert message in str(caught.value)
    for line in str(caught.value).splitlines():
        assert line.startswith("net.yaml:")


def test_all_mistakes_are_told_at_once_in_file_order() -> None:
    text = GENERATED.replace("400Gbps", "400").replace("500ns", "500").replace("spines", "spine")
    with pytest.raises(TopologyError) as caught:
        topologies.loads(text)
    lines = [problem.line for problem in caught.value.problems]
    assert lines == sorted(lines)
    assert {p.field for p in caught.value.problems} == {
        "spines",
        "spine",
        "link.rate",
        "link.delay",
    }


@pytest.mark.parametrize("text", ["", "- a list", "just text", "5"])
def test_a_file_that_is_no_mapping(text: str) -> None:
    with pytest.raises(TopologyError, match="a topology is a mapping"):
        topologies.loads(text)


def test_an_unknown_name_or_file(tmp_path: Path) -> None:
    with pytest.raises(TopologyError, match="no such topology file; did you mean 'leafspine'"):
        topologies.load("leafspin")
    with pytest.raises(TopologyError, match="no such topology file"):
        topologies.load(tmp_path / "missing.yaml")
    with pytest.raises(TopologyError, match=r"can't be read: Is a directory$"):
        (tmp_path / "folder.yaml").mkdir()
        topologies.load(tmp_path / "folder.yaml")


def test_addresses_that_clash() -> None:
    hosts = "[{name: h1, address: 10.9.0.1/24}, {name: h2, address: 10.9.0.1/24}]"
    text = GOOD.replace("[h1]", hosts).replace("b: s2:1}", "b: s2:1}\n  - {a: h2, b: s1:3}")
    with pytest.raises(TopologyError, match=r"hosts\[1\].*10.9.0.1 is already h1's"):
        topologies.loads(text)
    with pytest.raises(TopologyError, match=r"overlaps 10.9.0.0/24, the network of s1"):
        topologies.loads(
            text.replace("b: s1:3", "b: s2:3").replace("10.9.0.1/24}]", "10.9.0.2/24}]")
        )
    with pytest.raises(TopologyError, match=r"is not in 10.9.0.0/24, the network of s1"):
        topologies.loads(text.replace("10.9.0.1/24}]", "10.8.0.1/24}]"))
