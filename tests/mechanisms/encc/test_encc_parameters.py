"""ENCC's parameters: from run files and from the fabric, whose longest round trip they aim at."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

import topologies
from hostagent.rnic.card_records import CardError, QueuePairConfig
from mechanisms.encc.parameters import MAX_RATE_BPS, encc_parameters
from mechanisms.round_trips import longest_round_trip_ps
from tests.hostagent.virtual_wire import make_card
from topologies import Topology
from workloads.slow_motion import ParameterError
from workloads.transport import transport_for
from workloads.transport_schema import transport_entry

GBPS = 10**9
PACKET = (4096 + 38) * 8 / 100  # ns in which a packet of the MTU is whole at 100 Gb/s

FABRIC = """\
time_scale: 1
{generator}
link: {{rate: 100Gbps, delay: 500ns, queue: 4MB, mtu: 4096B}}
classes: {{roce: {{dscp: 26, queue: 3}}, rest: {{queue: 0}}}}
"""
TREE = "generator: fat_tree\nk: 4"
SPINES = "generator: leaf_spine\nleaves: 2\nspines: 2\nhosts_per_leaf: {hosts}"


def fabric(generator: str) -> Topology:
    return topologies.loads(FABRIC.format(generator=generator))


@pytest.mark.parametrize(
    ("generator", "hops"), [(TREE, 6), (SPINES.format(hosts=1), 4), (SPINES.format(hosts=3), 4)]
)
def test_the_base_round_trip_is_that_of_the_hosts_farthest_apart(generator: str, hops: int) -> None:
    topology = fabric(generator)
    there_and_back = sum(topology.there_and_back_ps(link) for link in topology.links)
    each = there_and_back / len(topology.links) / 1000  # of all links alike
    assert longest_round_trip_ps(topology) == pytest.approx(1000 * hops * (each + PACKET), abs=1000)


def test_what_a_run_file_says_and_what_the_fabric_does() -> None:
    topology = fabric(TREE)
    entry = transport_entry().model_validate({"congestion_control": "encc"})
    (name,) = transport_for(entry, 100 * GBPS, topology=topology).fields()
    fields = transport_for(entry, 100 * GBPS, topology=topology).fields(10_000)[name]
    assert name == "encc"
    assert fields == {
        "line_rate": 10**7,
        "min_rate": 2500,
        "rate_ai": 86_957,
        "base_rtt_ns": -(-longest_round_trip_ps(topology) // 1000) * 10_000,
        "eta_q16": 62259,
        "max_stage": 0,
        "time_scale": 10_000,
        "by_root": 1,
        "queue_free": 8192,
    }
    said = {
        "eta": 0.99,
        "rate_ai": "40Mbps",
        "base_rtt": "13us",
        "max_stage": 5,
        "increase": "constant",
        "queue_free": "4kB",
        "min_rate": "1Gbps",
    }
    entry = transport_entry().model_validate({"congestion_control": "encc", "encc_overrides": said})
    fields = transport_for(entry, 100 * GBPS, topology=topology).fields()["encc"]
    assert (fields["base_rtt_ns"], fields["max_stage"], fields["eta_q16"]) == (13_000, 5, 64881)
    assert (fields["rate_ai"], fields["min_rate"]) == (40 * 10**6, GBPS)
    assert (fields["by_root"], fields["queue_free"]) == (0, 4000)


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"eta": 0}, "greater than 0"),
        ({"eta": 2.5}, "less than or equal to 2"),
        ({"base_rtt": "10"}, "base_rtt"),
        ({"gain": 1}, "gain"),
    ],
)
def test_what_is_refused(said: dict[str, Any], why: str) -> None:
    with pytest.raises(ValidationError, match=why):
        transport_entry().model_validate({"congestion_control": "encc", "encc_overrides": said})


def test_a_rate_that_the_integers_do_not_hold() -> None:
    with pytest.raises(ParameterError, match="ENCC's integers hold up to"):
        encc_parameters(MAX_RATE_BPS + 1)


WRONG = {
    "base_rtt_ns is from 1 ns of the fabric": {"base_rtt_ns": 0},
    "base_rtt_ns is at most 2.30 ns of the fabric": {"base_rtt_ns": 1 << 33},
    "line_rate is from 1 to 2.42": {"line_rate": MAX_RATE_BPS + 1},
    "min_rate is from 1 to line_rate": {"min_rate": 0},
    "rate_ai is at most": {"rate_ai": MAX_RATE_BPS + 1},
    "eta_q16 is from 1": {"eta_q16": 131073},
    "time_scale is at least 1": {"time_scale": 0},
}


@pytest.mark.parametrize("why", WRONG)
def test_what_the_card_refuses(why: str) -> None:
    """A round trip of nothing is no default: somebody forgot to say where the sender is."""
    fields = {**encc_parameters(100 * GBPS, 13_000).fields(), **WRONG[why]}
    with pytest.raises(CardError, match=f"encc: {why}"):
        make_card(1).add_queue_pair(QueuePairConfig(qpn=5, mtu=4096), {"encc": fields})
