"""What each generator makes: counts, places, addresses, who reaches whom; and what it refuses."""

from __future__ import annotations

import itertools
from fractions import Fraction

import pytest

import topologies
from mechanisms.dcqcn.parameters import MarkingOfSet
from topologies import Endpoint, Role, Topology, TopologyError
from topologies.ecn import EcnThresholds, step
from topologies.oversubscription import long_hauls, tiers
from topologies.reach import Reach

LINK = "{rate: 400Gbps, delay: 500ns, queue: 1MB}"


def make(generator: str, **parameters: object) -> Topology:
    return topologies.loads(text(generator, **parameters))


def text(generator: str, **parameters: object) -> str:
    values = {"time_scale": 10000, "generator": generator, "link": LINK, **parameters}
    return "".join(f"{key}: {value}\n" for key, value in values.items())


# (generator, its parameters, switches, hosts, interfaces, links)
SIZES: list[tuple[str, dict[str, object], int, int, int, int]] = [
    ("single", {"hosts": 5}, 1, 5, 5, 5),
    ("single", {"hosts": 253}, 1, 253, 253, 253),
    ("leaf_spine", {"spines": 2, "leaves": 3, "hosts_per_leaf": 4}, 5, 12, 12, 18),
    (
        "leaf_spine",
        {"spines": 2, "leaves": 3, "hosts_per_leaf": 4, "links_per_spine": 2},
        *(5, 12, 12, 24),
    ),
    ("leaf_spine", {"spines": 16, "leaves": 64, "hosts_per_leaf": 16}, 80, 1024, 1024, 2048),
    ("rail", {"hosts_per_group": 4, "spines": 2}, 10, 4, 32, 48),
    ("rail", {"groups": 2, "rails": 4, "hosts_per_group": 3, "spines": 0}, 8, 6, 24, 24),
    ("rail", {"groups": 4, "hosts_per_group": 128, "spines": 8}, 40, 512, 4096, 4352),
    ("fat_tree", {"k": 2}, 5, 2, 2, 6),
    ("fat_tree", {"k": 4}, 20, 16, 16, 48),
    ("fat_tree", {"k": 4, "hosts_per_leaf": 1}, 20, 8, 8, 40),
    ("fat_tree", {"k": 16}, 320, 1024, 1024, 3072),
    (
        "rail",
        {"groups": 3, "rails": 4, "hosts_per_group": 2, "spines": 2, "rail_only": "true"},
        20,
        6,
        24,
        48,
    ),
    ("dual_plane", {"spines": 2, "leaves": 3, "hosts_per_leaf": 2}, 10, 6, 12, 24),
    ("dual_plane", {"planes": 8, "spines": 1, "leaves": 2, "hosts_per_leaf": 2}, 24, 4, 32, 48),
    (
        "dual_plane",
        {"pods": 3, "spines": 2, "leaves": 2, "hosts_per_leaf": 2, "cores": 4},
        *(32, 12, 24, 72),
    ),
    ("hpn", {"segments": 2, "servers_per_segment": 3, "rails": 4, "spines": 2}, 20, 24, 48, 80),
    (
        "hpn",
        {"pods": 2, "segments": 2, "servers_per_segment": 1, "spines": 2, "cores": 2, "planes": 3},
        *(114, 32, 96, 96 + 3 * (64 + 4)),
    ),
    (
        "two_dc",
        {"spines": 2, "leaves": 2, "hosts_per_leaf": 2, "long_link": "{length: 100km}"},
        *(10, 8, 8, 21),
    ),
    (
        "two_dc",
        {"spines": 2, "leaves": 3, "hosts_per_leaf": 1, "borders": 2, "long_link": "{}"},
        *(14, 6, 6, 28),
    ),
    (
        "data_centres",
        {"centres": 2, "spines": 2, "leaves": 2, "hosts_per_leaf": 2, "long_link": "{}"},
        *(10, 8, 8, 21),
    ),
    (
        "data_centres",
        {
            "centres": 3,
            "spines": 2,
            "leaves": 2,
            "hosts_per_leaf": 1,
            "borders": 2,
            "long_link": "{}",
        },
        *(18, 6, 6, 36),
    ),
    (
        "data_centres",
        {
            "centres": 4,
            "shape": "full",
            "spines": 1,
            "leaves": 1,
            "hosts_per_leaf": 1,
            "long_link": "{}",
        },
        *(12, 4, 4, 18),
    ),
]


@pytest.mark.parametrize(
    ("generator", "parameters", "switches", "hosts", "interfaces", "links"), SIZES
)
def test_counts_names_and_addresses(
    generator: str,
    parameters: dict[str, object],
    switches: int,
    hosts: int,
    interfaces: int,
    links: int,
) -> None:
    fabric = make(generator, **parameters)
    parts = list(fabric.interfaces())
    assert (len(fabric.switches), len(fabric.hosts)) == (switches, hosts)
    assert (len(parts), len(fabric.links)) == (interfaces, links)
    assert [switch.name for switch in fabric.switches] == [f"s{n + 1}" for n in range(switches)]
    assert [host.name for host in fabric.hosts] == [f"h{n + 1}" for n in range(hosts)]
    macs = [node.mac for node in (*fabric.switches, *parts)]
    assert len(set(macs)) == len(macs)
    assert len({part.address.ip for part in parts}) == len(parts)
    for part in parts:
        gateway = fabric.switch(part.switch).gateway
        assert gateway is not None
        assert part.address.network == gateway.network
        assert part.gateway == gateway.ip
        assert fabric.peer(part.switch, part.port) == part.end
        assert fabric.interface(part.end) is part
    for switch in fabric.switches:
        numbers = [port.number for port in fabric.ports_of(switch.name)]
        assert numbers == list(range(1, len(numbers) + 1))


def ports(fabric: Topology, node: str) -> list[str]:
    return [str(port.peer) for port in fabric.ports_of(node)]


def test_rail_i_of_each_host_is_at_leaf_i() -> None:
    fabric = make("rail", groups=2, rails=8, hosts_per_group=2, spines=2)
    h1, h4 = fabric.host("h1"), fabric.host("h4")
    assert [part.switch for part in h1.interfaces] == [f"s{n}" for n in range(1, 9)]
    assert [part.switch for part in h4.interfaces] == [f"s{n}" for n in range(9, 17)]
    assert [str(part.address) for part in h1.interfaces[:2]] == ["10.0.1.1/24", "10.0.2.1/24"]
    assert (h1.group, h4.group, fabric.switch("s9").group) == ("group 1", "group 2", "group 2")
    assert ports(fabric, "s2") == ["h1:1", "h2:1", "s17:2", "s18:2"]
    assert (str(h1.address), h1.switch, h1.port) == ("10.0.1.1/24", "s1", 1)
    assert fabric.link_at("h1", 7) == fabric.link_at("s8", 1)
    assert Reach(fabric).distances("s1")["s16"] == 2


def test_rail_only_joins_no_rails() -> None:
    fabric = make("rail", rails=4, hosts_per_group=2, spines=0)
    islands = Reach(fabric).islands
    assert len(set(islands.values())) == 4


def test_a_fat_tree_has_its_tiers_and_equal_ways() -> None:
    fabric = make("fat_tree", k=4)
    assert [s.role for s in fabric.switches] == (
        [Role.LEAF] * 8 + [Role.SPINE] * 8 + [Role.CORE] * 4
    )
    assert ports(fabric, "s1") == ["h1", "h2", "s9:1", "s10:1"]
    assert ports(fabric, "s9") == ["s1:3", "s2:3", "s17:1", "s18:1"]
    assert ports(fabric, "s10") == ["s1:4", "s2:4", "s19:1", "s20:1"]
    assert ports(fabric, "s17") == ["s9:3", "s11:3", "s13:3", "s15:3"]
    reach = Reach(fabric)
    assert reach.layers("s1", "s3") == (
        ("s9", "s10"),
        ("s17", "s18", "s19", "s20"),
        ("s11", "s12"),
    )
    assert reach.layers("s1", "s1") == ()
    assert {switch.group for switch in fabric.switches} == {f"pod {n}" for n in range(1, 5)} | {""}


@pytest.mark.parametrize("k", [2, 4, 8])
def test_a_fat_tree_is_not_oversubscribed(k: int) -> None:
    assert [str(tier) for tier in tiers(make("fat_tree", k=k))] == ["leaf 1:1", "spine 1:1"]


def test_two_planes_share_only_hosts() -> None:
    fabric = make("dual_plane", spines=2, leaves=2, hosts_per_leaf=2)
    reach = Reach(fabric)
    planes = {name: switch.group for name, switch in ((s.name, s) for s in fabric.switches)}
    assert len(set(reach.islands.values())) == 2
    for a, b in itertools.combinations(fabric.hosts, 2):
        assert reach.hosts_meet(a, b)
        assert [reach.meet(a.interfaces[0], part) for part in b.interfaces] == [True, False]
    for host in fabric.hosts:
        assert [planes[part.switch] for part in host.interfaces] == ["plane A", "plane B"]
    first = fabric.host("h1").interfaces
    assert list(reach.networks_beyond(first[0])) == ["10.0.2.0/24"]
    assert list(reach.networks_beyond(first[1])) == ["10.0.4.0/24"]


def test_rail_only_joins_the_leaves_of_a_rail_alone() -> None:
    fabric = make("rail", groups=3, rails=4, hosts_per_group=2, spines=2, rail_only="true")
    reach = Reach(fabric)
    for a, b in itertools.combinations(fabric.hosts, 2):
        for one, two in itertools.product(a.interfaces, b.interfaces):
            assert reach.meet(one, two) is (one.number == two.number)
    assert ports(fabric, "s13") == ["s1:3", "s5:3", "s9:3"]


@pytest.mark.parametrize("planes", [2, 3, 8])
def test_planes_of_three_tiers_do_not_meet_up_to_the_cores(planes: int) -> None:
    fabric = make(
        "dual_plane", planes=planes, pods=2, leaves=2, spines=2, cores=4, hosts_per_leaf=1
    )
    reach = Reach(fabric)
    assert sorted(set(reach.islands.values())) == list(range(planes))
    for name, island in reach.islands.items():
        assert fabric.switch(name).group == f"plane {'ABCDEFGH'[island]}"
    for a, b in itertools.combinations(fabric.hosts, 2):
        assert [reach.meet(a.interfaces[0], part) for part in b.interfaces] == [True] + [False] * (
            planes - 1
        )
    first, last = fabric.hosts[0].interfaces[0].switch, fabric.hosts[-1].interfaces[0].switch
    assert [len(layer) for layer in reach.layers(first, last)] == [2, 4, 2]


def test_a_nic_of_hpn_has_its_two_ports_at_two_leaves_of_its_rail() -> None:
    fabric = make("hpn", segments=2, servers_per_segment=2, rails=8, spines=3)
    servers = [fabric.hosts[at : at + 8] for at in range(0, 32, 8)]
    for number, server in enumerate(servers):
        first = 1 + 8 * (number // 2)
        assert [nic.interfaces[0].switch for nic in server] == [f"s{first + r}" for r in range(8)]
        assert [nic.interfaces[1].switch for nic in server] == [
            f"s{16 + first + r}" for r in range(8)
        ]
    assert ports(fabric, "s1") == ["h1", "h9", "s33:1", "s34:1", "s35:1"]
    assert ports(fabric, "s17") == ["h1:1", "h9:1", "s36:1", "s37:1", "s38:1"]
    # A rail crosses one switch inside a segment, three to the next; rails meet in their plane.
    reach = Reach(fabric)
    assert reach.layers("s1", "s9") == reach.layers("s1", "s2") == (("s33", "s34", "s35"),)


def test_a_segment_of_hpn_has_the_published_sizes() -> None:
    """Qian et al., "Alibaba HPN", SIGCOMM 2024: a leaf has 128 x 200G down and 60 x 400G up."""
    fabric = make(
        "hpn", segments=1, servers_per_segment=128, spines=60, host_link="{rate: 200Gbps}"
    )
    assert len(fabric.hosts) == 1024
    assert [len(fabric.ports_of(f"s{n}")) for n in range(1, 17)] == [188] * 16
    assert [str(tier) for tier in tiers(fabric)] == ["leaf 1.07:1"]


def test_two_data_centres_have_a_long_link() -> None:
    fabric = make(
        "two_dc",
        spines=2,
        leaves=2,
        hosts_per_leaf=2,
        long_link="{length: 100km, rate: 800Gbps, queue: 100MB}",
        border_link="{rate: 200Gbps}",
    )
    long = fabric.link_at("s9", 3)
    assert (long.a, long.b) == (Endpoint("s9", 3), Endpoint("s10", 3))
    assert (long.delay_ps, long.rate_bps) == (500_000_000, 800 * 10**9)
    assert fabric.link_at("s9", 1).rate_bps == 200 * 10**9
    assert [s.name for s in fabric.switches_with(Role.BORDER)] == ["s9", "s10"]
    assert Reach(fabric).layers("s1", "s3") == (("s5", "s6"), ("s9",), ("s10",), ("s7", "s8"))
    assert {host.group for host in fabric.hosts} == {"dc 1", "dc 2"}


CENTRES: dict[str, object] = {"spines": 1, "leaves": 1, "hosts_per_leaf": 1}
LONG = "{length: 100km}"


def between(fabric: Topology) -> dict[tuple[str, str], int]:
    """Return the delay in us of each long link, by the data centres that it joins."""
    group = {switch.name: switch.group.removeprefix("dc ") for switch in fabric.switches}
    pairs = {
        (group[link.a.node], group[link.b.node]): link.delay_ps // 10**6
        for link in fabric.links
        if fabric.is_switch(link.a.node)
    }
    return {pair: delay for pair, delay in pairs.items() if pair[0] != pair[1]}


@pytest.mark.parametrize(
    ("shape", "centres", "joined"),
    [
        ("line", 4, ["12", "23", "34"]),
        ("ring", 4, ["12", "23", "34", "14"]),
        ("ring", 3, ["12", "23", "13"]),
        ("ring", 2, ["12"]),
        ("full", 4, ["12", "13", "14", "23", "24", "34"]),
    ],
)
def test_data_centres_are_joined_as_their_shape_says(
    shape: str, centres: int, joined: list[str]
) -> None:
    fabric = make("data_centres", centres=centres, shape=shape, long_link=LONG, **CENTRES)
    assert between(fabric) == {(pair[0], pair[1]): 500 for pair in joined}
    assert len(set(Reach(fabric).islands.values())) == 1


def test_two_data_centres_are_those_of_two_dc() -> None:
    of_each = {"spines": 2, "leaves": 2, "hosts_per_leaf": 3, "borders": 2}
    two = make("two_dc", long_link=LONG, **of_each)
    same = make("data_centres", centres=2, long_link=LONG, **of_each)
    assert (same.switches, same.hosts, same.links) == (two.switches, two.hosts, two.links)


def test_a_long_link_may_have_settings_of_its_own() -> None:
    own = "[{between: [2, 1], length: 300km, rate: 800Gbps}]"
    fabric = make("data_centres", centres=3, borders=2, long_link=LONG, long_links=own, **CENTRES)
    assert between(fabric) == {("1", "2"): 1500, ("2", "3"): 500, ("1", "3"): 500}
    rates = [link.rate_bps // 10**9 for link in fabric.links if link.delay_ps == 1500 * 10**6]
    assert rates == [800, 800]  # of both borders


def test_the_oversubscription_of_a_long_haul_is_that_of_its_hosts() -> None:
    own = "[{between: [1, 2], rate: 200Gbps}]"
    of_each = {"spines": 1, "leaves": 2, "hosts_per_leaf": 4, "borders": 2}
    fabric = make(
        "data_centres", centres=3, shape="line", long_link=LONG, long_links=own, **of_each
    )
    found = {haul.group: (haul.hosts_bps, haul.out_bps) for haul in long_hauls(fabric)}
    g = 10**9  # 8 hosts of 400 Gb/s, each border's links to its neighbours
    assert found == {
        "dc 1": (3200 * g, 2 * 200 * g),
        "dc 2": (3200 * g, 2 * (200 + 400) * g),
        "dc 3": (3200 * g, 2 * 400 * g),
    }
    assert [haul.ratio for haul in long_hauls(fabric)] == [8, Fraction(8, 3), 4]
    assert not list(long_hauls(make("fat_tree", k=4)))


def test_kinds_of_links_and_single_ones_have_their_own_settings() -> None:
    fabric = make(
        "fat_tree",
        k=4,
        host_link="{rate: 200Gbps, mtu: 1400B}",
        core_link="{length: 2km}",
        overrides="[{between: [s1, s9], rate: 100Gbps}, {between: [h2, s1], queue: 5MB}]",
    )
    assert fabric.link_at("h1").rate_bps == 200 * 10**9
    assert (fabric.link_at("h1").mtu_bytes, fabric.link_at("s1", 3).mtu_bytes) == (1400, 1500)
    assert (fabric.link_at("s9", 3).delay_ps, fabric.link_at("s9", 1).delay_ps) == (10**7, 500_000)
    assert [fabric.link_at("s1", n).rate_bps // 10**9 for n in (3, 4)] == [100, 400]
    assert [fabric.link_at("s1", n).queue_bytes // 10**6 for n in (1, 2)] == [1, 5]


def test_the_class_map_is_in_the_model() -> None:
    classes = (
        "{cnp: {dscp: 48, queue: 7}, roce: {dscp: [24, 26], queue: 3, lossless: true, ecn: 1kB}}"
    )
    cnp, roce = make("single", hosts=2, classes=classes).classes
    assert (cnp.name, cnp.dscps, cnp.queue, cnp.lossless, cnp.setting("ecn")) == (
        *("cnp", (48,), 7, False),
        None,
    )
    assert (roce.dscps, roce.queue, roce.lossless) == ((24, 26), 3, True)
    assert roce.setting("ecn") == step(1000)
    assert roce.setting("fast_cnp") is None


# (generator, its parameters, part of the message)
REFUSED: list[tuple[str, dict[str, object], str]] = [
    ("single", {"hosts": 254}, "hosts: one switch takes 253 hosts"),
    ("single", {"hosts": 0}, "hosts: must be at least 1, not 0"),
    (
        "leaf_spine",
        {"spines": 2, "leaves": 255, "hosts_per_leaf": 2},
        "leaves: a switch has 254 ports and this asks for 255: for more hosts take generator fat",
    ),
    (
        "leaf_spine",
        {"spines": 2, "leaves": 2, "hosts_per_leaf": 300},
        "hosts_per_leaf: a leaf has 254 ports for its hosts and uplinks together, and this asks "
        "for 300 and 2",
    ),
    (
        "leaf_spine",
        {"spines": 2, "leaves": 200, "hosts_per_leaf": 2, "links_per_spine": 2},
        "leaves: a switch has 254 ports and this asks for 400",
    ),
    ("fat_tree", {"k": 5}, "k: k must be even, not 5: half of the ports go up"),
    ("fat_tree", {"k": 10**18}, f"k: a switch has 254 ports and this asks for {10**18}"),
    ("fat_tree", {"k": 256}, "k: a switch has 254 ports and this asks for 256"),
    ("rail", {"rails": 1, "hosts_per_group": 2, "spines": 1}, "rails: must be at least 2, not 1"),
    (
        "rail",
        {"groups": 32, "hosts_per_group": 2, "spines": 1},
        "groups: a switch has 254 ports and this asks for 256",
    ),
    (
        "dual_plane",
        {"spines": 2, "leaves": 2, "hosts_per_leaf": 2, "hosts": 2},
        "hosts: unknown key 'hosts': known here are allreduce, arp",
    ),
    (
        "dual_plane",
        {"planes": 9, "spines": 2, "leaves": 2, "hosts_per_leaf": 2},
        "planes: must be at most 8, not 9",
    ),
    (
        "dual_plane",
        {"pods": 2, "spines": 2, "leaves": 2, "hosts_per_leaf": 2},
        "pods: cores join the pods, the same number at each of 2 spines of a pod: give both",
    ),
    (
        "dual_plane",
        {"pods": 2, "spines": 2, "leaves": 2, "hosts_per_leaf": 2, "cores": 3},
        "cores: cores join the pods, the same number at each of 2 spines of a pod: a multiple of 2",
    ),
    (
        "hpn",
        {"segments": 32, "servers_per_segment": 4, "spines": 2},
        "segments: a switch has 254 ports and this asks for 256",
    ),
    (
        "hpn",
        {"servers_per_segment": 200, "spines": 60},
        "servers_per_segment: a leaf has 254 ports for its hosts and uplinks together, and this",
    ),
    ("two_dc", {"spines": 2, "leaves": 2, "hosts_per_leaf": 2}, "'long_link' is missing here"),
    (
        "data_centres",
        {
            "centres": 3,
            "shape": "line",
            "spines": 1,
            "leaves": 1,
            "hosts_per_leaf": 1,
            "long_link": "{length: 1km}",
            "long_links": "[{between: [1, 3], length: 50km}]",
        },
        "long_links[0].between: no long link between 1 and 3: 3 centres, shape line",
    ),
    (
        "data_centres",
        {
            "centres": 250,
            "shape": "full",
            "spines": 6,
            "leaves": 1,
            "hosts_per_leaf": 1,
            "long_link": "{length: 1km}",
        },
        "spines: a switch has 254 ports and this asks for 255",
    ),
    (
        "two_dc",
        {
            "spines": 2,
            "leaves": 2,
            "hosts_per_leaf": 2,
            "link": "{rate: 1Gbps}",
            "long_link": "{length: 1km}",
        },
        "link: no queue given: add one, as queue: 1MB",
    ),
    (
        "fat_tree",
        {"k": 4, "overrides": "[{between: [s1, s99], rate: 1Gbps}]"},
        "overrides[0].between: there is no 's99' in this fabric; did you mean",
    ),
    (
        "fat_tree",
        {"k": 4, "overrides": "[{between: [s1, s2], rate: 1Gbps}]"},
        "overrides[0].between: no link between s1 and s2 in this fabric",
    ),
    (
        "fat_tree",
        {"k": 4, "overrides": "[{between: [s1], rate: 1Gbps}]"},
        "overrides[0].between: must have 2 parts",
    ),
]


@pytest.mark.parametrize(("generator", "parameters", "message"), REFUSED)
def test_what_does_not_fit_is_refused(
    generator: str, parameters: dict[str, object], message: str
) -> None:
    with pytest.raises(TopologyError) as caught:
        topologies.loads(text(generator, **parameters), file="net.yaml")
    assert message in str(caught.value)


def test_hosts_of_an_explicit_file_may_have_several_interfaces() -> None:
    net = topologies.loads(
        """\
time_scale: 1
link: {rate: 1Gbps, delay: 1us, queue: 1MB}
switches: [s1, s2]
hosts: [{name: h1, interfaces: [{}, {address: 10.7.0.9/24, mac: 02:00:00:00:00:09}]}, h2]
links: [{a: h1, b: s1:1}, {a: s2:1, b: h1:1}, {a: h2, b: s2:2}, {a: s1:2, b: s2:3}]
"""
    )
    first, second = net.host("h1").interfaces
    assert (str(first.end), str(second.end)) == ("h1", "h1:1")
    assert (str(first.address), str(first.gateway)) == ("10.0.1.1/24", "10.0.1.254")
    assert (str(second.address), second.mac) == ("10.7.0.9/24", "02:00:00:00:00:09")
    assert str(net.host("h2").address) == "10.7.0.2/24"
    assert [str(part.end) for part in net.interfaces_of("s2")] == ["h1:1", "h2"]
    assert [host.name for host in net.hosts_of("s2")] == ["h1", "h2"]
    assert [port.number for port in net.ports_of("h1")] == [0, 1]


MARKING = """\
time_scale: 1
generator: single
hosts: 2
link: {rate: 400Gbps, delay: 1us, queue: 9MB}
"""


def test_a_class_marks_by_a_step_a_ramp_or_a_parameter_set() -> None:
    topology = topologies.loads(
        MARKING + "classes:\n"
        "  a: {dscp: 1, queue: 1, ecn: 100kB}\n"
        "  b: {dscp: 2, queue: 2, ecn: {min: 400kB, max: 1600kB, probability: 20%}}\n"
        "  c: {dscp: 3, queue: 3, ecn: hpcc-dcqcn}\n"
    )
    a, b, c = (each.setting("ecn") for each in topology.classes)
    assert (a, b, c) == (
        step(100_000),
        EcnThresholds(400_000, 1_600_000, (1 << 32) // 5),
        MarkingOfSet("hpcc-dcqcn"),
    )
    # 100 and 400 kB for each 25 Gb/s
    assert c.at(400 * 10**9) == EcnThresholds(1_600_000, 6_400_000, (1 << 32) // 5)


@pytest.mark.parametrize(
    ("ecn", "says"),
    [
        ("dcqcn", "a parameter set: ns3-rdma, hpcc-dcqcn-paper, hpcc-dcqcn"),
        ("{min: 2kB, max: 1kB, probability: 1}", "min is above max"),
        ("{min: 1kB}", "a ramp has min, max and probability"),
        ("{min: 1kB, max: 2kB, probability: 2}", "more than 0% and at most 100%"),
    ],
)
def test_a_bad_marking_says_what_would_be_right(ecn: str, says: str) -> None:
    with pytest.raises(TopologyError) as caught:
        topologies.loads(MARKING + f"classes: {{a: {{dscp: 1, queue: 1, ecn: {ecn}}}}}\n")
    assert says in str(caught.value)
    assert "ecn" in str(caught.value)
