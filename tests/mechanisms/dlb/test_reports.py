"""GLB: what switches report of paths, and what comes of it, in virtual time."""

from __future__ import annotations

import pytest
from scapy.layers.l2 import Ether

from mechanisms import registry
from mechanisms.dlb.mechanism import MECHANISM
from mechanisms.dlb.reports import BAND_BITS, LEAVES, room, template
from mechanisms.dlb.settings import PathReports, reports_of
from mechanisms.program import FABRIC
from protocols.notification import Notification, NotificationType, body_of
from simulator.runner import Simulation
from tests.mechanisms.dlb.test_policies import (
    FAT_TREE,
    TWO_TIERS,
    UPLINKS,
    counted,
    message,
    permutation,
    program,
    ran,
)
from topologies.errors import TopologyError
from topologies.tickers import TICKER_PORT
from workloads.loader import read_run

RUN = """\
topology:
  {shape}
  link: {{rate: 100Gbps, delay: 500ns, queue: 8MB, mtu: 4200B}}
  classes:
    roce: {{dscp: 26, queue: 3, load_balancing: {policy}}}
  {more}
until: {until}us
events: [{events}]
traffic:
{traffic}
"""
SLOW = "{at: 0us, link: s2-s3, degraded: 25%, towards: s2}"
"""From the first of four spines down to the second leaf: s1's hosts send by it."""

SLOW_CORES = ", ".join(
    f'{{at: 0us, link: "s33:{5 + n}-s{65 + n}:1", degraded: 25%, towards: s33}}' for n in range(4)
)
"""Of a fat tree of 128 hosts: all that leads down into the first spine of pod 0."""


def simulated(
    traffic: list[str],
    *,
    policy: str = "packet-glb",
    events: str = "",
    until_us: int = 200,
    more: str = "",
    shape: str = TWO_TIERS,
) -> Simulation:
    text = RUN.format(
        shape=shape, policy=policy, more=more, until=until_us, events=events,
        traffic="\n".join(traffic),
    )  # fmt: skip
    run = read_run(text)
    simulation = Simulation(run, program(registry.defines(run.topology)), seed=1)
    simulation.run()
    return simulation


def cell(simulation: Simulation, switch: str, name: str, index: int) -> int:
    device = simulation.fabric.switches[switch].device
    assert device.pipeline is not None
    number = simulation.control.program.p4info.registers[name].id
    return device.core.register_get(device.pipeline.schema.registers[number].index, index)


def heard(simulation: Simulation, switch: str, place: int, leaf: int) -> int:
    """Return the band of a leaf, as the switch behind a port reported it last."""
    bands = cell(simulation, switch, "glb_heard", place)
    return sum((bands >> bit * LEAVES + leaf & 1) << bit for bit in range(BAND_BITS))


def two_leaves() -> list[str]:
    return [message(host, 8 + host, 400, udp_port=50000 + host) for host in range(1, 5)]


def test_a_slow_link_behind_the_next_hop_is_reported_and_avoided() -> None:
    """Four hosts fill four uplinks; behind one of them there is a quarter of the rate."""
    simulation = simulated(two_leaves(), events=SLOW, until_us=100)
    assert heard(simulation, "s1", 0, 1) >= 2
    assert [heard(simulation, "s1", place, 1) for place in (1, 2, 3)] == [0, 0, 0]
    ports = counted(simulation, ports=UPLINKS)
    assert ports[9]["chosen"] < 0.6 * min(ports[n]["chosen"] for n in (10, 11, 12))
    blind = counted(simulated(two_leaves(), policy="packet-dlb", events=SLOW, until_us=100))
    assert blind[9]["chosen"] > 0.9 * min(blind[n]["chosen"] for n in (10, 11, 12))


def test_slowed_down_as_in_real_time_it_is_seen_as_well() -> None:
    """Ten thousand times: a byte, and what a queue of a cell takes, have as many more ticks."""
    run = simulated(two_leaves(), events=SLOW, until_us=100, more="time_scale: 10000")
    assert heard(run, "s1", 0, 1) >= 2
    ports = counted(run, ports=UPLINKS)
    assert ports[9]["chosen"] < 0.6 * min(ports[n]["chosen"] for n in (10, 11, 12))


def test_reports_do_not_concern_other_leaves() -> None:
    """A spine's slow link to one leaf says nothing of its links to others."""
    shape = "generator: leaf_spine\n  leaves: 3\n  spines: 4\n  hosts_per_leaf: 8"
    traffic = [message(host, 8 + host, 400) for host in range(1, 5)]
    event = SLOW.replace("s2-s3", "s2-s4")
    simulation = simulated(traffic, events=event, until_us=100, shape=shape)
    assert heard(simulation, "s1", 0, 1) >= 2
    assert heard(simulation, "s1", 0, 2) == heard(simulation, "s3", 0, 2) == 0


def test_a_slow_link_stays_worse_than_others_when_nothing_waits() -> None:
    """What is on its way before anybody hears of a queue would fill it again."""
    simulation = simulated(two_leaves(), events=SLOW, until_us=1000)
    assert [heard(simulation, "s1", place, 1) for place in range(4)] == [3, 0, 0, 0]


def test_a_link_that_has_its_rate_back_is_reported_as_good_again() -> None:
    back = SLOW.replace("0us", "300us").replace("25%", "100%")
    later = [
        message(host, 8 + host, 400, start="400us", udp_port=50000 + host) for host in range(1, 9)
    ]
    simulation = simulated([*two_leaves(), *later], events=f"{SLOW}, {back}", until_us=1000)
    assert [heard(simulation, "s1", place, 1) for place in range(4)] == [0, 0, 0, 0]


def test_short_packets_behind_long_ones_make_no_line_slow() -> None:
    """8 hosts fill 4 uplinks, each message ends in 288 B; then nothing waits any more."""
    mixed = [message(host, 8 + host, bytes=f"{100 * 4096 + 288}B") for host in range(1, 9)]
    simulation = simulated(mixed, until_us=600)
    assert cell(simulation, "s1", "glb_waits", 0) == 0
    assert [heard(simulation, "s1", place, 1) for place in range(4)] == [0, 0, 0, 0]


def test_a_neighbour_that_falls_silent_leads_nowhere() -> None:
    """Reports come each 2 us, or each 8 us without news; 32 us without any are too long."""
    event = "{at: 50us, link: s1-s3, loss: 100%}"
    late = [message(host, 8 + host, 100, start="200us") for host in range(1, 9)]
    ports = counted(simulated(late, events=event, until_us=400), ports=UPLINKS)
    assert ports[9]["chosen"] == 0
    assert sum(ports[number]["chosen"] for number in (10, 11, 12)) == 800


def test_flowlets_keep_their_order_and_avoid_it_too() -> None:
    bursts = [
        message(host, 8 + host, 20, count=10, gap="100us", start=f"{host}us", udp_port=50000 + host)
        for host in range(1, 9)
    ]
    found = ran("{policy: flowlet-glb, gap: 60us}", bursts)
    assert found.out_of_order == found.lost == 0
    assert sum(found.chosen()) > 60


@pytest.mark.parametrize("seed", [1, 2])
def test_three_tiers_hear_of_links_three_hops_away(seed: int) -> None:
    """128 hosts; the bound of any way to split is 204 us, spraying takes 584 us."""
    traffic = permutation(128, seed)
    shape = FAT_TREE.format(k=8)
    blind = ran("packet-dlb", traffic, shape=shape, events=SLOW_CORES, seed=seed)
    told = ran("packet-glb", traffic, shape=shape, events=SLOW_CORES, seed=seed)
    assert told.lost == 0
    assert told.done_us.max() < 0.5 * blind.done_us.max()


def test_a_healthy_fabric_is_no_worse_for_reports() -> None:
    traffic = permutation(128, 3)
    shape = FAT_TREE.format(k=8)
    blind = ran("packet-dlb", traffic, shape=shape, seed=3)
    told = ran("packet-glb", traffic, shape=shape, seed=3)
    assert told.done_us.max() <= 1.03 * blind.done_us.max()


def test_the_ticker_has_room_for_a_report() -> None:
    text = RUN.format(
        shape=TWO_TIERS, policy="packet-glb", more="", until=1, events="", traffic=message(1, 9)
    )
    topology = read_run(text).topology
    assert reports_of(topology) == PathReports()
    packet = Ether(template(room(topology)))
    assert packet[Notification].type == NotificationType.PATH_QUALITY
    assert packet[Notification].destination_qp == LEAVES
    assert len(body_of(packet)) == BAND_BITS * LEAVES // 8


def test_the_module_has_the_room_that_entries_take_for_granted() -> None:
    module = (FABRIC.parent / "modules/dlb.p4").read_text()
    assert f"#define GLB_LEAVES {LEAVES} " in module


@pytest.mark.parametrize(
    ("said", "wrong"),
    [
        ("{period: 100ns}", "a period of reports is from 640ns to 1s"),
        ("{refresh: 0}", "must be at least 1, not 0"),
        ("{every: 2us}", "every"),
    ],
)
def test_settings_that_are_wrong_are_named(said: str, wrong: str) -> None:
    text = RUN.format(
        shape=TWO_TIERS, policy="packet-glb", more=f"path_reports: {said}", until=1, events="",
        traffic=message(1, 9),
    )  # fmt: skip
    with pytest.raises((TopologyError, ValueError), match=wrong):
        read_run(text)


def test_more_leaves_than_a_report_has_room_for_are_warned_of(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("mechanisms.dlb.mechanism.MOST_LEAVES", 1)
    text = RUN.format(
        shape=TWO_TIERS, policy="packet-glb", more="", until=1, events="", traffic=message(1, 9)
    )
    remarks = [each.message for each in MECHANISM.remarks(read_run(text).topology)]
    assert any("2 leaves and reports of paths have room for 1:" in each for each in remarks)


def test_policies_without_reports_have_a_program_without_them() -> None:
    text = RUN.format(
        shape=TWO_TIERS, policy="packet-dlb", more="", until=1, events="", traffic=message(1, 9)
    )
    assert registry.defines(read_run(text).topology) == ("PROFILE", "WITH_FABRIC", "WITH_DLB")


def test_a_report_and_a_tick_of_the_same_tick_are_not_far_apart() -> None:
    """A report's age is 0 in its own tick, and it is silent for longer than 32 us from the next."""
    simulation = simulated(two_leaves(), until_us=40)
    core = simulation.fabric.switches["s1"].device.core
    frame = Ether(template(LEAVES))
    frame[Ether].src = "02:00:00:00:00:01"
    at_ns = 50_000
    core.inject(9, bytes(frame), at_ns * 1000)
    silence_ns = PathReports().silence_ps // 1000
    for later_ns in (0, silence_ns, silence_ns + 1):
        before = cell(simulation, "s1", "glb_silent", 0)
        for _ in range(4):  # each port's turn
            core.inject(TICKER_PORT, template(LEAVES), (at_ns + later_ns) * 1000)
        first = 1 << 0
        assert before & first == 0
        assert cell(simulation, "s1", "glb_when", 0) == at_ns
        assert bool(cell(simulation, "s1", "glb_silent", 0) & first) == (later_ns > silence_ns)
    assert heard(simulation, "s1", 0, 1) == (1 << BAND_BITS) - 1
