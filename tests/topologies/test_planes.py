"""Planes found in the graph, what they share, and pairs of hosts that two failures cut apart."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

import topologies
from topologies import Host, Topology
from topologies.lint.findings import Finding, Severity
from topologies.lint.planes import cut_pairs
from topologies.lint.topology import lint
from topologies.loader import read
from topologies.planes import planes_of

LINK = {"rate": "200Gbps", "delay": "500ns", "queue": "1MB"}
PLANES = {"generator": "dual_plane", "spines": 2, "leaves": 2, "hosts_per_leaf": 2}


def made(**keys: Any) -> Topology:
    return topologies.loads(yaml.safe_dump({"time_scale": 1, "link": LINK, **keys}))


#      plane A             plane B
#    s5      s6          s7      s8
#    |  \/   |           |  \/   |
#   s1       s2         s3       s4
#   h1,h2   h3,h4      h1,h2   h3,h4
def explicit(*more: tuple[str, str], swapped: str = "", names: bool = False) -> str:
    """Return the fabric above in the explicit form, with more links, one host's cables swapped."""
    ports: dict[str, int] = {}

    def end(node: str) -> str:
        ports[node] = ports.get(node, 0) + 1
        return f"{node}:{ports[node]}"

    links = []
    for number, leaves in enumerate(("s1 s2", "s3 s4")):
        for host, leaf in zip(("h1", "h2", "h3", "h4"), leaves.split() * 2, strict=True):
            place = ("s1", "s2") if number == 0 else ("s3", "s4")
            interface = 1 - number if host == swapped else number
            links.append({"a": f"{host}:{interface}", "b": end(place[host > "h2"])})
            del leaf
    for leaf, spine in itertools.product(("s1", "s2"), ("s5", "s6")):
        links.append({"a": end(leaf), "b": end(spine)})
    for leaf, spine in itertools.product(("s3", "s4"), ("s7", "s8")):
        links.append({"a": end(leaf), "b": end(spine)})
    links += [{"a": end(a), "b": end(b)} for a, b in more]
    switches = [{"name": f"s{n}", "role": "leaf" if n < 5 else "spine"} for n in range(1, 10)]
    used = {text.partition(":")[0] for link in links for text in link.values()}
    if names:
        for switch in switches[:8]:
            switch["group"] = "north" if switch["name"] in ("s1", "s2", "s5", "s6") else "south"
    file = {
        "time_scale": 100_000,
        "classes": {"cnp": {"dscp": 48, "queue": 7}},
        "link": LINK,
        "switches": [switch for switch in switches if switch["name"] in used],
        "hosts": ["h1", "h2", "h3", "h4"],
        "links": links,
    }
    return yaml.safe_dump(file, sort_keys=False)


def found(text: str) -> list[Finding]:
    return list(lint(read(text, file="net.yaml")).findings)


# --- which switch is in which plane ---------------------------------------------------------------


@pytest.mark.parametrize("names", [False, True])
def test_planes_are_found_in_the_graph(names: bool) -> None:
    planes = planes_of(topologies.loads(explicit(names=names)))
    assert [plane.name for plane in planes.planes] == (["north", "south"] if names else ["A", "B"])
    assert [plane.switches for plane in planes.planes] == [
        ("s1", "s2", "s5", "s6"),
        ("s3", "s4", "s7", "s8"),
    ]
    assert [[str(part.end) for part in plane.interfaces] for plane in planes.planes] == [
        ["h1", "h2", "h3", "h4"],
        ["h1:1", "h2:1", "h3:1", "h4:1"],
    ]
    assert planes.are_separate and not planes.crossed
    assert planes.by_switch["s7"] is planes.planes[1] is planes.named(planes.planes[1].name)


@pytest.mark.parametrize(
    "keys",
    [
        PLANES,
        PLANES | {"planes": 8},
        PLANES | {"planes": 3, "pods": 2, "cores": 4},
        {"generator": "hpn", "segments": 2, "servers_per_segment": 2, "spines": 2},
        {"generator": "hpn", "pods": 2, "servers_per_segment": 1, "spines": 2, "cores": 2},
    ],
)
def test_generated_planes_are_those_of_their_groups(keys: dict[str, Any]) -> None:
    topology = made(**keys)
    planes = planes_of(topology)
    assert len(planes.planes) == keys.get("planes", 2)
    assert planes.are_separate and not planes.crossed
    for switch in topology.switches:
        assert switch.group == f"plane {planes.by_switch[switch.name].name}"
    for number, plane in enumerate(planes.planes):
        assert [part.number for part in plane.interfaces] == [number] * len(topology.hosts)


@pytest.mark.parametrize(
    "keys",
    [
        {"generator": "leaf_spine", "spines": 2, "leaves": 2, "hosts_per_leaf": 2},
        {"generator": "rail", "hosts_per_group": 2, "spines": 2},  # all spines join all rails
        {"generator": "rail", "rails": 3, "groups": 2, "hosts_per_group": 2, "spines": 1},
        {
            "switches": ["s1"],
            "hosts": ["h1"],
            "links": [{"a": "h1", "b": "s1:1"}, {"a": "h1:1", "b": "s1:2"}],
        },
    ],
)
def test_interfaces_that_meet_at_most_switches_lead_into_no_planes(keys: dict[str, Any]) -> None:
    planes = planes_of(made(**keys))
    assert planes.planes == planes.shared == planes.joints == planes.crossed == ()
    assert not planes.are_separate


@pytest.mark.parametrize("groups", [1, 2])
def test_rails_that_do_not_meet_are_planes(groups: int) -> None:
    topology = made(
        generator="rail", rails=4, groups=groups, hosts_per_group=2, spines=2, rail_only=True
    )
    planes = planes_of(topology)
    assert [plane.name for plane in planes.planes] == ["A", "B", "C", "D"]
    assert planes.are_separate


def test_a_server_of_many_nics_has_its_ports_in_two_planes() -> None:
    """Interface 2r + p is port p of NIC r; all leaves of a plane are joined by its spines."""
    links = [
        {"a": f"h{h}:{2 * r + p}", "b": f"s{1 + 4 * p + r}:{h}"}
        for h, r, p in itertools.product((1, 2), range(4), (0, 1))
    ]
    links += [
        {"a": f"s{1 + 4 * p + r}:{3 + s}", "b": f"s{9 + 2 * p + s}:{1 + r}"}
        for r, p, s in itertools.product(range(4), (0, 1), (0, 1))
    ]
    switches = [{"name": f"s{n}", "role": "leaf" if n < 9 else "spine"} for n in range(1, 13)]
    planes = planes_of(made(switches=switches, hosts=["h1", "h2"], links=links))
    assert [plane.switches for plane in planes.planes] == [
        ("s1", "s2", "s3", "s4", "s9", "s10"),
        ("s5", "s6", "s7", "s8", "s11", "s12"),
    ]
    assert planes.are_separate and not planes.crossed


# --- what the lint says ---------------------------------------------------------------------------


def about_planes(text: str) -> list[tuple[Severity, str]]:
    words = ("plane", "share")
    return [
        (f.severity, f.message) for f in found(text) if any(word in f.message for word in words)
    ]


CUT = (
    Severity.INFO,
    "h1 and h2: cut apart when each has lost another plane (by an interface, a cable or a port); "
    "6 pairs of hosts can be, as h1 and h3, h1 and h4",
)


def test_separate_planes_are_only_told_their_pairs() -> None:
    assert about_planes(explicit()) == [CUT]
    remark = next(finding for finding in found(explicit()) if "cut apart" in finding.message)
    assert remark.right == (
        "a third host in both planes (h3) that forwards, or a link between the planes would serve "
        "them"
    )


@pytest.mark.parametrize(
    ("link", "ends"),
    [(("s5", "s7"), "s5:3-s7:3"), (("s1", "s3"), "s1:5-s3:5"), (("s1", "s7"), "s1:5-s7:3")],
)
def test_a_link_between_planes_is_a_remark_and_ends_the_one_on_pairs(
    link: tuple[str, str], ends: str
) -> None:
    text = explicit(link)
    assert about_planes(text) == [
        (
            Severity.INFO,
            f"{ends}: joins planes A and B: hosts that have lost different planes still have a "
            "way, and the planes are no longer separate",
        )
    ]
    assert cut_pairs(topologies.loads(text)).count == brute_force(topologies.loads(text)) == 0
    planes = planes_of(topologies.loads(text))
    assert [plane.switches for plane in planes.planes] == [
        ("s1", "s2", "s5", "s6"),
        ("s3", "s4", "s7", "s8"),
    ]


def test_a_switch_of_two_planes_is_a_warning() -> None:
    text = explicit(*((f"s{n}", "s9") for n in range(1, 5)))
    assert about_planes(text) == [
        (Severity.WARNING, "s9: shared by planes A and B: its failure harms them all")
    ]


def test_links_of_two_planes_are_a_warning() -> None:
    text = explicit(*((f"s{n}", "s9") for n in range(1, 5)))
    file = yaml.safe_load(text)
    file["switches"] += [{"name": "s10", "role": "core"}]
    file["links"] += [{"a": "s9:5", "b": "s10:1"}]
    tail = ": shared by planes A and B: its failure harms them all"
    assert {message for _, message in about_planes(yaml.safe_dump(file))} == {
        *(f"{subject}{tail}" for subject in ("s9", "s10", "s9:5-s10:1")),
    }


def test_swapped_cables_are_a_warning() -> None:
    assert about_planes(explicit(swapped="h3"))[:2] == [
        (Severity.WARNING, "h3:0: in plane B, where interface 0 of other hosts is in plane A"),
        (Severity.WARNING, "h3:1: in plane A, where interface 1 of other hosts is in plane B"),
    ]


def test_a_large_fabric_gets_one_remark() -> None:
    text = yaml.safe_dump(
        {"time_scale": 1, "link": LINK, **PLANES, "leaves": 8, "hosts_per_leaf": 64}
    )
    remarks = [message for _, message in about_planes(text)]
    assert len(remarks) == 1
    assert f"{512 * 511 // 2} pairs of hosts" in remarks[0]


def test_two_hosts_alone_have_no_third_one() -> None:
    topology = made(**PLANES | {"leaves": 1})
    cut = cut_pairs(topology)
    assert (cut.count, cut.helper) == (1, None)
    text = yaml.safe_dump({"time_scale": 1, "link": LINK, **PLANES, "leaves": 1})
    assert "a link between the planes would serve them" in [
        finding.right for finding in found(text)
    ]


@pytest.mark.parametrize("planes", [3, 4, 8])
def test_with_three_planes_two_failures_leave_a_common_one(planes: int) -> None:
    assert cut_pairs(made(**PLANES, planes=planes)).count == 0


# --- against brute force --------------------------------------------------------------------------


def reached(topology: Topology, host: Host, without: int | None) -> set[str]:
    """Return the switches that a host reaches without one of its interfaces, link by link."""
    seen = {part.switch for part in host.interfaces if part.number != without}
    waiting = list(seen)
    while waiting:
        for port in topology.ports_of(waiting.pop()):
            peer = port.peer.node
            if topology.is_switch(peer) and peer not in seen:
                seen.add(peer)
                waiting.append(peer)
    return seen


def brute_force(topology: Topology) -> int:
    """Pairs that meet, and for which there is an interface of each without which they do not."""
    count = 0
    for a, b in itertools.combinations(topology.hosts, 2):
        if min(len(a.interfaces), len(b.interfaces)) < 2:
            continue
        if not reached(topology, a, None) & reached(topology, b, None):
            continue
        count += any(
            not reached(topology, a, one.number) & reached(topology, b, two.number)
            for one, two in itertools.product(a.interfaces, b.interfaces)
        )
    return count


@st.composite
def fabrics(draw: st.DrawFn) -> Topology:
    """Draw some switches, joined at random, and hosts with one to three interfaces anywhere."""
    count = draw(st.integers(1, 5))
    number = st.integers(1, count)
    edges = draw(st.lists(st.tuples(number, number).filter(lambda e: e[0] != e[1]), max_size=5))
    homes = draw(st.lists(st.lists(number, min_size=1, max_size=3), min_size=1, max_size=6))
    ports = dict.fromkeys(range(1, count + 1), 0)

    def end(switch: int) -> str:
        ports[switch] += 1
        return f"s{switch}:{ports[switch]}"

    links = [{"a": end(a), "b": end(b)} for a, b in edges]
    links += [
        {"a": f"h{h}:{i}", "b": end(at)} for h, of in enumerate(homes, 1) for i, at in enumerate(of)
    ]
    switches = [f"s{n}" for n in range(1, count + 1)]
    hosts = [f"h{n}" for n in range(1, len(homes) + 1)]
    return made(switches=switches, hosts=hosts, links=links)


FEW, MANY = settings(max_examples=30), settings(max_examples=300, deadline=None)


@FEW
@given(fabrics())
def test_cut_pairs_are_those_of_brute_force(topology: Topology) -> None:
    same_as_brute_force(topology)


@pytest.mark.long
@MANY
@given(fabrics())
def test_cut_pairs_are_those_of_brute_force_in_many(topology: Topology) -> None:
    same_as_brute_force(topology)


def same_as_brute_force(topology: Topology) -> None:
    cut = cut_pairs(topology, shown=10**6)
    assert cut.count == len(cut.first) == brute_force(topology)
    for a, b in cut.first:
        assert brute_force_pair(topology, a, b)
    if cut.helper is not None:
        assert cut.helper not in cut.first[0]
    assert cut_pairs(topology).first == cut.first[:3]


def brute_force_pair(topology: Topology, a: Host, b: Host) -> bool:
    return any(
        not reached(topology, a, one.number) & reached(topology, b, two.number)
        for one, two in itertools.product(a.interfaces, b.interfaces)
    )


@FEW
@given(fabrics())
def test_planes_are_consistent_with_the_graph(topology: Topology) -> None:
    consistent(topology)


@pytest.mark.long
@MANY
@given(fabrics())
def test_planes_are_consistent_with_the_graph_in_many(topology: Topology) -> None:
    consistent(topology)


def consistent(topology: Topology) -> None:
    """Separate planes never meet, and planes that meet share a switch or have a joint."""
    planes = planes_of(topology)
    of = {name: {plane.name} for name, plane in planes.by_switch.items()}
    of |= {name: {plane.name for plane in shared} for name, shared in planes.shared}
    for link in topology.links:
        ends = [of.get(end.node, set()) for end in (link.a, link.b)]
        if all(len(each) == 1 for each in ends):
            assert (ends[0] != ends[1]) is (link in planes.joints)
    if planes.are_separate:
        for one, two in itertools.combinations(planes.planes, 2):
            here = {s for part in one.interfaces for s in meets(topology, part.switch)}
            assert not here & {part.switch for part in two.interfaces}


def meets(topology: Topology, switch: str) -> set[str]:
    host = Host("any", topology.interfaces_of(switch)[:1])
    return reached(topology, host, None)
