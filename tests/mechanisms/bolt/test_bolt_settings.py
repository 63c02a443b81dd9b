"""Bolt in files: parameters from run files and fabrics, the class's setting, what switches hold."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

import topologies
from controller.entries import ActionCall, Exact, TableEntry
from controller.fabric_state import FabricModel, desired_entries
from controller.policy import FabricPolicy
from controller.target_facts import TargetFacts
from mechanisms.bolt.parameters import MAX_RATE_BPS, bolt_parameters
from mechanisms.bolt.settings import Bolt, describe
from mechanisms.registry import defines, run_remarks
from mechanisms.round_trips import longest_round_trip_ps
from tests.mechanisms.bolt.line import FACTS, MTU, PACKET, info, topology
from tests.mechanisms.bolt.test_bolt_runs import text
from topologies.errors import TopologyError
from workloads.loader import read_run
from workloads.slow_motion import ParameterError
from workloads.transport import transport_for
from workloads.transport_schema import transport_entry

GBPS = 10**9
TREE = """\
time_scale: 1
generator: fat_tree
k: 4
link: {rate: 100Gbps, delay: 500ns, queue: 4MB, mtu: 4200B}
classes: {roce: {dscp: 26, queue: 3, bolt: true}, rest: {queue: 0}}
"""


def test_what_a_run_file_says_and_what_the_fabric_does() -> None:
    fabric = topologies.loads(TREE)
    entry = transport_entry().model_validate({"congestion_control": "bolt", "mtu": "4096B"})
    fields = transport_for(entry, 100 * GBPS, topology=fabric).fields(10_000)["bolt"]
    trip = -(-longest_round_trip_ps(fabric) // 1000)
    first = 100 * GBPS * trip * 65536 // (8 * GBPS * 4096)
    assert fields == {
        "line_rate": 10**7,
        "min_rate": 2500,
        "base_rtt_ns": trip * 10_000,
        "first_q16": pytest.approx(first, abs=1),
        "most_q16": pytest.approx(2 * first, abs=2),
        "least_q16": 655,
        "packet_bytes": 4096,
        "ai_q16": 8192,
        "max_mdf_q16": 32768,
        "time_scale": 10_000,
        "whole_steps": 0,
    }


def test_single_parameters_of_a_run_file() -> None:
    said = {"ai": 1, "max_mdf": 0.25, "window_min": 0.5, "window_most": 1, "base_rtt": "13us",
            "min_rate": "1Gbps", "steps": "whole"}  # fmt: skip
    entry = transport_entry().model_validate({"congestion_control": "bolt", "bolt_overrides": said})
    given = transport_for(entry, 100 * GBPS, topology=topologies.loads(TREE))
    fields = given.fields()["bolt"]
    assert (fields["base_rtt_ns"], fields["min_rate"], fields["whole_steps"]) == (13_000, GBPS, 1)
    assert (fields["ai_q16"], fields["max_mdf_q16"], fields["least_q16"]) == (65536, 16384, 32768)
    assert fields["most_q16"] == fields["first_q16"]


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"ai": -1}, "greater than or equal to 0"),
        ({"max_mdf": 1}, "less than 1"),
        ({"window_most": 0.5}, "greater than or equal to 1"),
        ({"steps": "half"}, "'exact' or 'whole'"),
        ({"base_rtt": "10"}, "base_rtt"),
        ({"gain": 1}, "gain"),
    ],
)
def test_what_is_refused(said: dict[str, Any], why: str) -> None:
    with pytest.raises(ValidationError, match=why):
        transport_entry().model_validate({"congestion_control": "bolt", "bolt_overrides": said})


def test_a_rate_that_the_integers_do_not_hold() -> None:
    with pytest.raises(ParameterError, match="Bolt's integers hold up to"):
        bolt_parameters(MAX_RATE_BPS + 1)


@pytest.mark.parametrize(
    ("said", "setting"),
    [("true", Bolt()), ("false", None), ("{threshold: 8KB}", Bolt(8000))],
)
def test_a_class_says_whether_its_switches_answer(said: str, setting: Bolt | None) -> None:
    fabric = topology(bolt=said)
    assert fabric.classes[1].setting("bolt") == setting
    assert ("WITH_BOLT" in defines(fabric)) == (setting is not None)


@pytest.mark.parametrize("said", ["{threshold: 0B}", "{threshold: 2GB}", "{treshold: 8KB}", "hops"])
def test_a_class_that_says_something_else_is_refused(said: str) -> None:
    with pytest.raises(TopologyError, match="bolt"):
        topology(bolt=said)


def test_a_program_without_such_a_class_has_nothing_of_it() -> None:
    assert "WITH_BOLT" not in defines(topologies.loads(TREE.replace(", bolt: true", "")))


def entry_of(facts: TargetFacts, queue: int, bolt: str = "true") -> ActionCall:
    """Return what port 1 does with a class."""
    fabric = topology(bolt=bolt)
    model = FabricModel(fabric, info(), facts, FabricPolicy.of(fabric))
    for each in desired_entries(model, "s1"):
        if isinstance(each, TableEntry) and each.table == "bolt_queue":
            key = dict(each.match)
            if key["port"] == Exact(1) and key["class"] == Exact(queue):
                assert isinstance(each.action, ActionCall)
                return each.action
    raise AssertionError("no such entry")


def test_numbers_are_the_line_s_in_the_target_s_ticks() -> None:
    call = entry_of(FACTS, 3)
    found = dict(call.arguments)
    assert call.action == "grant_queue"
    assert found["drain"] == 12.5 * 2**32  # bytes in a ns
    assert (found["mtu"], found["long_queue"], found["depth_unit"]) == (PACKET, MTU, 256)
    assert found["drain_ns"] == 8 * 2**32 // 100
    assert found["drain"] * (found["longest"] - 1) <= (2**26 + PACKET) << 32
    assert dict(entry_of(FACTS, 3, "{threshold: 9KB}").arguments)["long_queue"] == 9000
    rest = entry_of(FACTS, 0)
    assert rest.action == "supply_port"
    assert dict(rest.arguments) == {name: found[name] for name in ("drain", "longest", "mtu")}
    slow = TargetFacts(tick_ps=10**6, depth_cell_bytes=None, priorities=8, time_scale=10_000)
    slowed = dict(entry_of(slow, 3).arguments)
    assert slowed["drain"] == 1.25 * 2**32
    assert slowed["drain_ns"] == found["drain_ns"]  # of the fabric, whatever the clock


def test_lint_says_where_no_switch_answers() -> None:
    assert list(run_remarks(read_run(text()))) == []
    (remark,) = run_remarks(read_run(text(of_class="ecn: hpcc-dcqcn")))
    assert "no switch answers Bolt's senders" in remark.message
    assert "bolt: true" in remark.right


def test_results_say_what_senders_ran_with() -> None:
    said = describe(vars(bolt_parameters(100 * GBPS).in_fabric(4_679, 4096)))
    assert "2 times what the line carries in 4.679us; +0.125 packets" in said
    assert "exact steps" in said
