"""Swift's parameters: from run files and from the fabric, whose round trips and hops they take."""

from __future__ import annotations

from math import sqrt
from typing import Any

import pytest
from pydantic import ValidationError

import topologies
from hostagent.rnic.card_records import CardError, QueuePairConfig
from mechanisms.round_trips import longest_round_trip_ps, most_hops
from mechanisms.swift.parameters import MAX_RATE_BPS, swift_parameters
from tests.hostagent.virtual_wire import make_card
from topologies import Topology
from workloads.slow_motion import ParameterError
from workloads.transport import transport_for
from workloads.transport_schema import transport_entry

GBPS = 10**9
FABRIC = """\
time_scale: 1
{generator}
link: {{rate: 100Gbps, delay: 500ns, queue: 4MB, mtu: {mtu}B}}
classes: {{roce: {{dscp: 26, queue: 3}}, rest: {{queue: 0}}}}
"""
TREE = "generator: fat_tree\nk: 4"
SPINES = "generator: leaf_spine\nleaves: 2\nspines: 2\nhosts_per_leaf: 2"
SINGLE = "generator: single\nhosts: 3"


def fabric(generator: str, mtu: int = 4200) -> Topology:
    return topologies.loads(FABRIC.format(generator=generator, mtu=mtu))


def fields(topology: Topology, scale: int = 1, **said: Any) -> dict[str, int]:
    told = {"congestion_control": "swift", "swift_overrides": said.pop("overrides", {}), **said}
    entry = transport_entry().model_validate(told)
    found = transport_for(entry, 100 * GBPS, topology=topology).fields(scale)
    assert list(found) == ["swift"]
    return dict(found["swift"])


@pytest.mark.parametrize(("generator", "hops"), [(SINGLE, 1), (SPINES, 3), (TREE, 5)])
def test_hops_are_the_switches_between_the_hosts_farthest_apart(generator: str, hops: int) -> None:
    assert most_hops(fabric(generator)) == hops


def test_what_follows_from_the_fabric() -> None:
    topology = fabric(TREE)
    trip = -(-longest_round_trip_ps(topology) // 1000)
    alpha = 4 * trip / (1 / sqrt(0.1) - 1 / 16)
    hop = 656  # two packets of 4096 bytes
    expected = {
        "line_rate": 100 * GBPS,
        "min_rate": 25 * 10**6,
        "base_rtt_ns": trip,
        "hops_ns": 5 * hop,
        "fs_alpha_ns": round(alpha),
        "fs_offset_ns": round(alpha / 16),
        "fs_range_ns": 4 * trip,
        "first_q16": 100 * trip * 65536 // (8 * 4096),
        "most_q16": 2 * (100 * (5 * trip + 5 * hop) * 65536 // (8 * 4096)),
        "least_q16": 655,
        "packet_bytes": 4096,
        "ai_q16": 65536,
        "beta_q16": 52429,
        "max_mdf_q16": 32768,
        "own_base": 1,
    }
    assert fields(topology) == expected
    slow = fields(topology, 10_000)
    assert slow["line_rate"] == 10**7
    for name, value in expected.items():
        if name.endswith("_ns"):
            assert slow[name] == pytest.approx(value * 10_000, rel=1e-3)
        elif name.endswith("_q16"):
            assert slow[name] == value


def test_a_packet_is_what_the_links_let_through_or_what_the_run_says() -> None:
    assert fields(fabric(SINGLE, mtu=1500))["packet_bytes"] == 1024
    assert fields(fabric(SINGLE), mtu="2048B")["packet_bytes"] == 2048


def test_what_a_run_file_says() -> None:
    said = {
        "base_rtt": "13us",
        "base": "fabric",
        "hops": 3,
        "hop_scale": "1us",
        "fs_range": "0us",
        "ai": 0.5,
        "beta": 0.4,
        "max_mdf": 0.25,
        "window_min": 0.1,
        "min_rate": "1Gbps",
    }
    found = fields(fabric(SINGLE), overrides=said)
    assert (found["base_rtt_ns"], found["hops_ns"], found["own_base"]) == (13_000, 3000, 0)
    assert (found["fs_range_ns"], found["fs_alpha_ns"]) == (0, 0)
    assert (found["ai_q16"], found["beta_q16"], found["max_mdf_q16"]) == (32768, 26214, 16384)
    assert (found["least_q16"], found["min_rate"]) == (6554, GBPS)
    assert found["most_q16"] == 2 * (100 * 16_000 * 65536 // (8 * 4096))


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"beta": 1}, "less than 1"),
        ({"max_mdf": 0}, "greater than 0"),
        ({"ai": 17}, "less than or equal to 16"),
        ({"window_min": 2}, "less than or equal to 1"),
        ({"fs_min": 64, "fs_max": 16}, "fs_min is below fs_max"),
        ({"fs_max": 0.05}, "fs_min is below fs_max"),
        ({"hops": 0}, "hops"),
        ({"target": "10us"}, "target"),
    ],
)
def test_what_is_refused(said: dict[str, Any], why: str) -> None:
    with pytest.raises(ValidationError, match=why):
        transport_entry().model_validate({"congestion_control": "swift", "swift_overrides": said})


def test_a_rate_that_the_integers_do_not_hold() -> None:
    with pytest.raises(ParameterError, match="Swift's integers hold up to"):
        swift_parameters(MAX_RATE_BPS + 1)


WRONG = {
    "line_rate is from 1 to 2.42": {"line_rate": MAX_RATE_BPS + 1},
    "min_rate is from 1 to line_rate": {"min_rate": 0},
    "base_rtt_ns is from 1": {"base_rtt_ns": 0},
    "hops_ns, fs_alpha_ns, fs_offset_ns": {"fs_range_ns": (1 << 40) + 1},
    "most_q16 is at most": {"most_q16": (1 << 34) + 1},
    "least_q16 is at least 1": {"first_q16": 1},
    "packet_bytes is from 1": {"packet_bytes": 0},
    "ai_q16 is at most": {"ai_q16": (1 << 20) + 1},
    "beta_q16 is at most": {"max_mdf_q16": 65536},
}


@pytest.mark.parametrize("why", WRONG)
def test_what_the_card_refuses(why: str) -> None:
    given = swift_parameters(100 * GBPS).in_fabric(13_000, 5, 4096)
    wrong = {**given.fields(), **WRONG[why]}
    with pytest.raises(CardError, match=f"swift: {why}"):
        make_card(1).add_queue_pair(QueuePairConfig(qpn=5, mtu=4096), {"swift": wrong})
