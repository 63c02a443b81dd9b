"""Scripted events: from the file, by fabric time, to calls of switches in real time.

h1
|1
s1 2 --- 1 s2      two links; the second is slower
   3 --- 2
"""

from __future__ import annotations

from typing import Any

import pytest

import topologies
from topologies import Topology, TopologyError
from topologies.event_model import Do
from topologies.events import DrainCall, LinksCall, PortCall, SwitchCall, calls

NET = """\
time_scale: 1000
link: {rate: 400Gbps, delay: 500ns, queue: 1MB}
switches: [s1, s2]
hosts: [h1]
links:
  - {a: h1, b: s1:1}
  - {a: s1:2, b: s2:1}
  - {a: s1:3, b: s2:2, rate: 100Gbps, delay: 2us}
"""
PS_PER_US, MS_IN_NS = 10**6, 10**6
ONE_PERCENT = 42_949_673
ALWAYS = 1 << 32


def net(*entries: str) -> Topology:
    return topologies.loads(NET + "events:\n" + "".join(f"  - {{{entry}}}\n" for entry in entries))


def ports(*entries: str) -> dict[tuple[int, str, int], Any]:
    """(real us, switch, port) -> arguments of set_link, of all entries."""
    found = calls(net(*entries))
    assert all(isinstance(call, PortCall) for call in found)
    return {
        (call.at_ns // 1000, call.switch, call.port): call.arguments
        for call in found
        if isinstance(call, PortCall)
    }


def switched(*entries: str) -> list[tuple[int, bool, list[str]]]:
    """(real us, up, links) of all entries."""
    found = calls(net(*entries))
    assert all(isinstance(call, LinksCall) for call in found)
    return [
        (call.at_ns // 1000, call.up, [f"{link.a}-{link.b}" for link in call.links])
        for call in found
        if isinstance(call, LinksCall)
    ]


def test_a_file_without_events_has_none() -> None:
    topology = topologies.loads(NET)
    assert topology.events == ()
    assert calls(topology) == ()


def test_down_and_up_in_order_of_time_not_of_the_file() -> None:
    assert switched("at: 4us, link: s1:2-s2:1, do: up", "at: 2us, link: s2:1-s1:2, do: down") == [
        (2000, False, ["s1:2-s2:1"]),
        (4000, True, ["s1:2-s2:1"]),
    ]


def test_events_of_one_instant_keep_the_files_order() -> None:
    found = net(*(f"at: 1us, link: h1-s1, do: {do}" for do in ("down", "up", "clear", "down")))
    assert [event.do for event in found.events] == [Do.DOWN, Do.UP, Do.CLEAR, Do.DOWN]


def test_down_for_a_while() -> None:
    assert switched("at: 2us, link: h1-s1, do: down, lasts: 3us") == [
        (2000, False, ["h1-s1:1"]),
        (5000, True, ["h1-s1:1"]),
    ]


def test_a_flap_is_down_first_each_time() -> None:
    assert switched("at: 10us, link: h1-s1, flap: {period: 4us, count: 3}") == [
        (us * 1000, up, ["h1-s1:1"])
        for us, up in ((10, False), (12, True), (14, False), (16, True), (18, False), (20, True))
    ]


def test_a_switch_goes_down_with_all_its_links() -> None:
    assert switched("at: 0us, switch: s2, do: down", "at: 1us, switch: s2, do: up") == [
        (0, False, ["s1:2-s2:1", "s1:3-s2:2"]),
        (1000, True, ["s1:2-s2:1", "s1:3-s2:2"]),
    ]


def test_a_switch_may_flap() -> None:
    both = ["s1:2-s2:1", "s1:3-s2:2"]
    assert switched("at: 0us, switch: s2, flap: {period: 2us}") == [
        (0, False, both),
        (1000, True, both),
    ]


def test_a_switch_is_killed_for_a_while() -> None:
    found = calls(net("at: 2us, switch: s2, do: kill, lasts: 3us", "at: 9us, switch: s1, do: kill"))
    assert found == (
        SwitchCall(2 * MS_IN_NS, "switch s2 kill", "s2", False),
        SwitchCall(5 * MS_IN_NS, "switch s2 revive", "s2", True),
        SwitchCall(9 * MS_IN_NS, "switch s1 kill", "s1", False),
    )


def test_loss_in_both_directions_is_both_senders() -> None:
    assert ports("at: 1us, link: s1:2-s2:1, loss: 1%") == {
        (1000, "s1", 2): {"send": {"loss": ONE_PERCENT}},
        (1000, "s2", 1): {"send": {"loss": ONE_PERCENT}},
    }


@pytest.mark.parametrize(("towards", "sender", "port"), [("s2", "s1", 2), ("s1", "s2", 1)])
def test_one_direction_is_its_senders(towards: str, sender: str, port: int) -> None:
    found = ports(f"at: 1us, link: s1:2-s2:1, towards: {towards}, loss: 100%")
    assert found == {(1000, sender, port): {"send": {"loss": ALWAYS}}}


def test_a_hosts_link_is_the_switchs_both_ways() -> None:
    assert ports("at: 1us, link: h1-s1, loss: 1%, delay: 3us, rate: 40Gbps") == {
        (1000, "s1", 1): {
            "send": {"loss": ONE_PERCENT},
            "receive": {"loss": ONE_PERCENT},
            "tx_delay_ps": 3000 * PS_PER_US,
            "rx_delay_ps": 3000 * PS_PER_US,
            "rate_bps": 40_000_000,
        }
    }
    assert ports("at: 1us, link: h1-s1, towards: s1, delay: 3us") == {
        (1000, "s1", 1): {"rx_delay_ps": 3000 * PS_PER_US}
    }


def test_every_impairment_and_its_scale() -> None:
    (found,) = ports(
        "at: 1us, link: s1:2-s2:1, towards: s2, loss: 1%, burst: {starts: 1%, ends: 50%}, "
        "bit_errors: 1e-9, corrupt: 0.5, duplicate: 1.0, reorder: {share: 25%, by: 2us}, "
        "jitter: 10ns, "
        "drop_flow: {src: 10.0.1.0/24, dst: 10.0.2.1, protocol: udp, dport: 4791, share: 50%}"
    ).values()
    assert found == {
        "send": {
            "loss": ONE_PERCENT,
            "burst_enter": ONE_PERCENT,
            "burst_leave": ALWAYS // 2,
            "burst_loss": ALWAYS,
            "bit_error": 18_446_744_074,
            "corrupt": ALWAYS // 2,
            "duplicate": ALWAYS,
            "reorder": ALWAYS // 4,
            "reorder_ps": 2000 * PS_PER_US,  # times are 1 000 times longer here, shares are not
            "jitter_ps": 10_000_000,
            "flow_loss": ALWAYS // 2,
            "flow_protocol": 17,
            "flow_src": 0x0A000100,
            "flow_src_mask": 0xFFFFFF00,
            "flow_dst": 0x0A000201,
            "flow_dst_mask": 0xFFFFFFFF,
            "flow_sport": 0,
            "flow_dport": 4791,
        }
    }


def test_settings_for_a_while_go_back_to_the_files() -> None:
    found = ports(
        "at: 1us, link: s1:3-s2:2, towards: s2, degraded: 25%, delay: 9us, loss: 1%, lasts: 1us"
    )
    assert found == {
        (1000, "s1", 3): {
            "rate_bps": 25_000_000,
            "tx_delay_ps": 9000 * PS_PER_US,
            "send": {"loss": ONE_PERCENT},
        },
        (2000, "s1", 3): {
            "rate_bps": 100_000_000,
            "tx_delay_ps": 2000 * PS_PER_US,
            "send": {"loss": 0},
        },
    }


def test_clear_undoes_everything() -> None:
    *settings, last = calls(net("at: 1us, link: s1:3-s2:2, do: clear"))
    assert [(call.switch, call.port, call.arguments) for call in settings] == [
        (switch, port, {"rate_bps": 100_000_000, "tx_delay_ps": 2000 * PS_PER_US, "clear": True})
        for switch, port in (("s1", 3), ("s2", 2))
    ]
    assert isinstance(last, LinksCall) and last.up


def test_generated_fabrics_have_events_too() -> None:
    text = "time_scale: 1\ngenerator: leaf_spine\nspines: 2\nleaves: 2\nhosts_per_leaf: 1\n"
    text += "link: {rate: 1Gbps, delay: 1us, queue: 1MB}\n"
    found = calls(topologies.loads(text + "events: [{at: 2ms, link: s1-s3, do: down}]"))
    assert [(call.at_ns, call.says) for call in found] == [(2 * MS_IN_NS, "s1-s3 down")]


AT = "at: 1us"
MISTAKES = [
    ("link: h1-s1, do: down", "10:5: events[0].at: 'at' is missing"),
    ("at: 5, link: h1-s1, do: down", "10:6: events[0].at: 5 has no unit"),
    (f"{AT}, do: down", "10:5: events[0]: say where: link: s1-s3, switch: s3, or pl"),
    (f"{AT}, link: h1-s1, switch: s1, do: down", "events[0]: say where"),
    (f"{AT}, link: h1-s1", "events[0]: say one thing"),
    (f"{AT}, link: h1-s1, do: down, loss: 1%", "events[0]: say one thing"),
    (f"{AT}, link: h1-s1, do: kill", "events[0]: do: kill is for a switch"),
    (f"{AT}, switch: s1, do: revive, lasts: 1us", "events[0]: 'lasts' is for do: down, do: kill"),
    (f"{AT}, switch: s9, do: kill", "events[0].switch: no switch is called 's9'"),
    (
        f"{AT}, link: h1-s1, do: sideways",
        "10:28: events[0].do: must be 'down', 'up', 'clear', 'kill', 'revive', 'drain' or 'undr",
    ),
    (f"{AT}, link: h1-s1, los: 1%", "10:28: events[0].los: unknown key 'los'; did you mean 'loss'"),
    (f"{AT}, link: h1, do: down", "10:15: events[0].link: 'h1' is not a link: write s1-s3"),
    (f"{AT}, link: s1-s2, do: down", "events[0].link: 2 links join them: name the ports, as s1:2-"),
    (f"{AT}, link: h1-s2, do: down", "events[0].link: there is no link between h1 and s2"),
    (f"{AT}, link: s1:9-s2, do: down", "events[0].link: there is no link between s1:9 and s2"),
    (f"{AT}, link: s1-s9, do: down", "events[0].link: no link leads to 's9'"),
    (f"{AT}, switch: s9, do: down", "10:15: events[0].switch: no switch is called 's9'"),
    (f"{AT}, switch: h1, do: down", "events[0].switch: no switch is called 'h1'"),
    (f"{AT}, switch: s1, loss: 1%", "events[0]: a switch goes down, up or flaps; set"),
    (f"{AT}, link: h1-s1, loss: 101%", "10:28: events[0].loss: 101% is not from 0 to 1"),
    (f"{AT}, link: h1-s1, loss: some", "events[0].loss: 'some' is not a ratio: write it as 1%"),
    (f"{AT}, link: h1-s1, reorder: 1%", "events[0].reorder: must be a mapping"),
    (f"{AT}, link: h1-s1, reorder: {{share: 1%}}", "events[0].reorder.by: 'by' is missing"),
    (f"{AT}, link: h1-s1, flap: {{period: 0us}}", "events[0]: a flap's period has to be more"),
    (f"{AT}, link: h1-s1, flap: {{period: 1us, cout: 1}}", "unknown key 'cout'; did you mean 'cou"),
    (
        f"{AT}, link: h1-s1, towards: s2, loss: 1%",
        "events[0].towards: 's2' is not an end of the link",
    ),
    (f"{AT}, link: h1-s1, towards: s1, do: down", "events[0]: 'towards' is for settings"),
    (f"{AT}, link: h1-s1, towards: s1, rate: 1Gbps", "h1 is a host: its own rate can't be"),
    (f"{AT}, link: h1-s1, do: up, lasts: 1us", "events[0]: 'lasts' is for do: down"),
    (f"{AT}, link: h1-s1, do: down, lasts: 0us", "events[0]: 'lasts' has to be more"),
    (f"{AT}, link: h1-s1, rate: 1Gbps, degraded: 5%", "events[0]: give rate or degraded"),
    (f"{AT}, link: h1-s1, degraded: 0%", "events[0]: a link degraded to 0 is down"),
    (
        f"{AT}, link: s1:2-s2:1, do: drain",
        "s1:2-s2:1 joins two switches, and drain is for links of",
    ),
    (
        f"{AT}, link: h1-s1, do: undrain",
        "events[0].link: h1 has one interface, and could send by no",
    ),
    (f"{AT}, switch: s1, do: drain", "events[0]: do: drain is for interfaces of hosts, who choose"),
    (f"{AT}, plane: B, do: drain", "10:15: events[0].plane: there are no planes: no host has"),
    (f"{AT}, plane: B, do: down", "events[0]: a plane is drained: do: drain or do: undrain"),
    (f"{AT}, plane: B, loss: 1%", "events[0]: a plane is drained: do: drain or do: undrain"),
    (
        f"{AT}, plane: B, link: h1-s1, do: drain",
        "events[0]: say where: link: s1-s3, switch: s3, or",
    ),
    (f"{AT}, link: h1-s1, do: undrain, lasts: 1us", "events[0]: 'lasts' is for do: down, do: kill"),
    (f"{AT}, link: h1-s1, drop_flow: {{src: 10.0.0.1/8}}", "src '10.0.0.1/8' is no IPv4"),
    (f"{AT}, link: h1-s1, drop_flow: {{dport: 0}}", "drop_flow.dport: must be at least 1"),
    (f"{AT}, link: h1-s1, drop_flow: {{protocol: icmp, dport: 1}}", "only tcp, udp and sctp"),
]


@pytest.mark.parametrize(("entry", "message"), MISTAKES)
def test_a_mistake_is_placed_and_explained(entry: str, message: str) -> None:
    with pytest.raises(TopologyError) as caught:
        topologies.loads(f"{NET}events:\n  - {{{entry}}}\n", file="net.yaml")
    assert message in str(caught.value)
    assert str(caught.value).startswith("net.yaml:10:")


PLANES = """\
time_scale: 1000
generator: dual_plane
spines: 1
leaves: 1
hosts_per_leaf: 2
link: {rate: 200Gbps, delay: 500ns, queue: 1MB}
"""


def drained(*entries: str) -> list[tuple[int, str, list[str], bool]]:
    """(real us, says, interfaces, on) of all entries."""
    text = PLANES + "events:\n" + "".join(f"  - {{{entry}}}\n" for entry in entries)
    found = calls(topologies.loads(text))
    assert all(isinstance(call, DrainCall) for call in found)
    return [
        (call.at_ns // 1000, call.says, [f"{end}" for end in call.ends], call.on)
        for call in found
        if isinstance(call, DrainCall)
    ]


def test_an_interface_of_a_host_is_drained_for_a_while() -> None:
    assert drained('at: 2us, link: "s2-h1:1", do: drain, lasts: 3us') == [
        (2000, "s2-h1:1 drain", ["h1:1"], True),
        (5000, "s2-h1:1 undrain", ["h1:1"], False),
    ]


def test_a_plane_is_drained_at_every_host() -> None:
    assert drained("at: 9us, plane: plane A, do: undrain", "at: 1us, plane: A, do: drain") == [
        (1000, "plane A drain", ["h1", "h2"], True),
        (9000, "plane A undrain", ["h1", "h2"], False),
    ]
    assert drained("at: 0us, plane: B, do: drain, lasts: 1ms") == [
        (0, "plane B drain", ["h1:1", "h2:1"], True),
        (10**6, "plane B undrain", ["h1:1", "h2:1"], False),
    ]


def test_a_plane_is_not_drained_at_hosts_that_have_no_other() -> None:
    text = (
        PLANES.split("generator")[0]
        + """\
link: {rate: 200Gbps, delay: 500ns, queue: 1MB}
switches: [s1, s2]
hosts: [h1, h2, h3]
links:
  - {a: h1, b: s1:1}
  - {a: "h1:1", b: s2:1}
  - {a: h2, b: s1:2}
  - {a: "h2:1", b: s2:2}
  - {a: h3, b: s2:3}
events: [{at: 1us, plane: B, do: drain}]
"""
    )
    (call,) = calls(topologies.loads(text))
    assert isinstance(call, DrainCall)
    assert [str(end) for end in call.ends] == ["h1:1", "h2:1"]


def test_an_unknown_plane_is_named_with_those_there_are() -> None:
    with pytest.raises(
        TopologyError, match=r":7:20: events\[0\].plane: no plane is called 'C'"
    ) as e:
        topologies.loads(PLANES + "events: [{at: 1us, plane: C, do: drain}]")
    assert str(e.value).endswith("available: A, B")


def test_mistakes_in_events_come_with_the_others() -> None:
    text = NET.replace("hosts: [h1]", "hosts: [h1, h2]")
    with pytest.raises(TopologyError) as caught:
        topologies.loads(text + "events: [{at: 1us, link: s1-s2, do: down}]")
    assert [problem.field for problem in caught.value.problems] == ["hosts[1]", "events[0].link"]
