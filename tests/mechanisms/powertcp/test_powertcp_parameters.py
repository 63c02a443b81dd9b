"""PowerTCP's parameters: from run files and from the fabric, whose longest round trip they take."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

import topologies
from hostagent.rnic.card_records import CardError, QueuePairConfig
from mechanisms.powertcp.parameters import MAX_RATE_BPS, powertcp_parameters
from mechanisms.round_trips import longest_round_trip_ps
from tests.hostagent.virtual_wire import make_card
from workloads.slow_motion import ParameterError
from workloads.transport import transport_for
from workloads.transport_schema import transport_entry

GBPS = 10**9
TREE = """\
time_scale: 1
generator: fat_tree
k: 4
link: {rate: 100Gbps, delay: 500ns, queue: 4MB, mtu: 4096B}
classes: {roce: {dscp: 26, queue: 3}, rest: {queue: 0}}
"""


def test_what_a_run_file_says_and_what_the_fabric_does() -> None:
    topology = topologies.loads(TREE)
    entry = transport_entry().model_validate({"congestion_control": "powertcp"})
    fields = transport_for(entry, 100 * GBPS, topology=topology).fields(10_000)
    assert fields == {
        "powertcp": {
            "line_rate": 10**7,
            "min_rate": 2500,
            "rate_ai": 59_880,
            "base_rtt_ns": -(-longest_round_trip_ps(topology) // 1000) * 10_000,
            "eta_q16": 62259,
            "gamma_q16": 58982,
            "time_scale": 10_000,
        }
    }


def test_single_parameters_of_a_run_file() -> None:
    said = {"eta": 1, "gamma": 0.5, "rate_ai": "600Mbps", "base_rtt": "13us", "min_rate": "1Gbps"}
    entry = transport_entry().model_validate(
        {"congestion_control": "powertcp", "powertcp_overrides": said}
    )
    fields = transport_for(entry, 100 * GBPS, topology=topologies.loads(TREE)).fields()["powertcp"]
    assert (fields["base_rtt_ns"], fields["eta_q16"], fields["gamma_q16"]) == (13_000, 65536, 32768)
    assert (fields["rate_ai"], fields["min_rate"]) == (600 * 10**6, GBPS)


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"eta": 0}, "greater than 0"),
        ({"eta": 2.5}, "less than or equal to 2"),
        ({"gamma": 1.01}, "less than or equal to 1"),
        ({"base_rtt": "10"}, "base_rtt"),
        ({"gain": 1}, "gain"),
    ],
)
def test_what_is_refused(said: dict[str, Any], why: str) -> None:
    with pytest.raises(ValidationError, match=why):
        transport_entry().model_validate(
            {"congestion_control": "powertcp", "powertcp_overrides": said}
        )


def test_a_rate_that_the_integers_do_not_hold() -> None:
    with pytest.raises(ParameterError, match="PowerTCP's integers hold up to"):
        powertcp_parameters(MAX_RATE_BPS + 1)


WRONG = {
    "base_rtt_ns is from 1 ns of the fabric": {"base_rtt_ns": 0},
    "base_rtt_ns is at most 2.31 ns of the fabric": {"base_rtt_ns": 1 << 33},
    "line_rate is from 1 to 2.42": {"line_rate": MAX_RATE_BPS + 1},
    "min_rate is from 1 to line_rate": {"min_rate": 0},
    "rate_ai is at most": {"rate_ai": MAX_RATE_BPS + 1},
    "eta_q16 is from 1": {"eta_q16": 131073},
    "gamma_q16 is from 1": {"gamma_q16": 65537},
    "time_scale is at least 1": {"time_scale": 0},
}


@pytest.mark.parametrize("why", WRONG)
def test_what_the_card_refuses(why: str) -> None:
    fields = {**powertcp_parameters(100 * GBPS, 13_000).fields(), **WRONG[why]}
    with pytest.raises(CardError, match=f"powertcp: {why}"):
        make_card(1).add_queue_pair(QueuePairConfig(qpn=5, mtu=4096), {"powertcp": fields})
