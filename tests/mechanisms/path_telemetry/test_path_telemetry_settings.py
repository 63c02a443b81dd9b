"""`path_telemetry:` in topology files: what it takes, refuses and makes of programs and entries."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import topologies
from controller.fabric_state import FabricModel, desired_entries
from controller.policy import FabricPolicy
from controller.target_facts import TargetFacts
from mechanisms.path_telemetry import entries
from mechanisms.path_telemetry.entries import hop_numbers, ns_per_tick, rate_code
from mechanisms.path_telemetry.mechanism import MECHANISM
from mechanisms.path_telemetry.settings import KEY, PathTelemetry
from mechanisms.registry import defines, path_records
from protocols.notification import rate_of
from protocols.path_telemetry import PathFormat, PathHop
from tests.mechanisms.path_telemetry.line import FACTS, info
from topologies import Topology, TopologyError

P4 = Path(__file__).parents[3] / "p4src/modules"


def fabric(said: str, other: str = "") -> Topology:
    return topologies.loads(
        f"""
generator: leaf_spine
time_scale: 1
leaves: 2
spines: 2
hosts_per_leaf: 2
link: {{rate: 100Gbps, delay: 1us, queue: 2MB, mtu: 4200B}}
classes:
  roce: {{dscp: 26, queue: 3{said}}}
  rest: {{queue: 0{other}}}
"""
    )


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("hops", PathTelemetry("hops")),
        ("most-used", PathTelemetry("most-used")),
        ("{format: hops}", PathTelemetry("hops")),
        ("{format: most-used, round_trip: 20us}", PathTelemetry("most-used", 20_000_000)),
        ("{format: hops, monitor: true}", PathTelemetry("hops", monitor=True)),
        ("{format: hops, monitor: false}", PathTelemetry("hops")),
    ],
)
def test_what_a_class_may_say(said: str, meant: PathTelemetry) -> None:
    assert fabric(f", path_telemetry: {said}").classes[0].setting(KEY) == meant


@pytest.mark.parametrize(
    ("said", "wrong"),
    [
        ("all", "'hops' or 'most-used'"),
        ("{round_trip: 20us}", "format"),
        ("{format: hops, round_trip: 20us}", "round_trip is for the format most-used"),
        ("{format: most-used, round_trip: 20ns}", "from 1us to 100ms"),
        ("{format: most-used, monitor: true}", "monitor is for the format hops"),
        ("{format: hops, monitor: often}", "monitor"),
    ],
)
def test_what_it_may_not_say(said: str, wrong: str) -> None:
    with pytest.raises(TopologyError, match=wrong):
        fabric(f", path_telemetry: {said}")


def test_a_program_has_what_is_used_and_no_more() -> None:
    found = [
        {each for each in defines(fabric(said)) if "PATH" in each}
        for said in ("", ", path_telemetry: hops", ", path_telemetry: most-used")
    ]
    assert found == [set(), {"WITH_PATH_TELEMETRY"}, {"WITH_PATH_TELEMETRY", "WITH_PATH_USE"}]


def held(topology: Topology, switch: str) -> list[str]:
    model = FabricModel(topology, info(), FACTS, FabricPolicy.of(topology))
    found = (str(each) for each in desired_entries(model, switch))
    return [each for each in found if "path_port" in each or "path_use" in each]


def test_without_it_there_is_no_entry_and_with_it_one_for_each_port_and_class() -> None:
    assert held(fabric(""), "s1") == []
    of_hops = held(fabric(", path_telemetry: hops"), "s1")
    assert len(of_hops) == 4 * 8
    assert sum("write_hop" in each for each in of_hops) == 4
    of_use = held(fabric(", path_telemetry: most-used"), "s1")
    assert len(of_use) == 4 * 8 + 4
    assert sum("write_use" in each for each in of_use) == 4
    assert sum("measure_use" in each for each in of_use) == 4


def test_hops_are_numbered_through_the_fabric() -> None:
    topology = fabric("")
    numbers = hop_numbers(topology)
    assert sorted(numbers.values()) == list(range(1, 13))
    assert numbers["s1", 1] == 1


def test_numbers_repeat_where_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entries, "MOST_HOPS", 5)
    monkeypatch.setattr("mechanisms.path_telemetry.mechanism.MOST_HOPS", 5)
    topology = fabric(", path_telemetry: hops")
    assert set(hop_numbers(topology).values()) == set(range(1, 6))
    (said,) = MECHANISM.remarks(topology)
    assert said.message == "numbers hops from 1 to 5, and switches have 12 ports"


def test_a_port_has_one_average() -> None:
    two = fabric(
        ", path_telemetry: most-used", ", path_telemetry: {format: most-used, round_trip: 9us}"
    )
    (said,) = MECHANISM.remarks(two)
    assert said.right == "give classes roce, rest the same round_trip"
    assert not list(MECHANISM.remarks(fabric(", path_telemetry: most-used")))


def test_rates_and_ticks_are_those_of_the_wire() -> None:
    for rate in (10**9, 25 * 10**9, 10**11, 4 * 10**11, 16 * 10**11):
        assert rate_code(rate) == rate_of(rate >> 16)
    assert ns_per_tick(TargetFacts()) == 1000 << 32
    assert ns_per_tick(TargetFacts(tick_ps=1000, time_scale=1000)) == round((1 << 32) / 1000)


def test_p4_has_the_same_record_and_formats() -> None:
    text = (P4 / "path_telemetry.p4").read_text()
    (body,) = re.findall(r"header path_hop_t \{(.*?)\n\}", text, re.DOTALL)
    found = [(n, int(bits)) for bits, n in re.findall(r"bit<(\d+)> (\w+);", body)]
    assert found == [(field.name, int(8 * field.sz)) for field in PathHop.fields_desc]
    assert f"PATH_TELEMETRY_HOPS = {PathFormat.HOPS:d};" in text
    more = (P4 / "path_telemetry/types.p4").read_text()
    assert f"PATH_TELEMETRY_MOST_USED = {PathFormat.MOST_USED:d};" in more


def test_records_are_named_by_port_and_class() -> None:
    found = path_records(fabric(", path_telemetry: {format: hops, monitor: true}"))
    assert found.dscps == found.always == {26}
    topology = fabric(", path_telemetry: hops")
    found = path_records(topology)
    assert found.dscps == {26} and not found.always
    assert {place: n for n, place in found.ports.items()} == dict(hop_numbers(topology))
    for said in ("", ", path_telemetry: most-used"):
        found = path_records(fabric(said))
        assert not found.dscps and not found.ports and "monitor: true" in found.right
