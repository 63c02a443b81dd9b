"""Runs beside HPCC's ns-3: same flows, one definition of slowdowns, a small case in both."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner

from compat.commands.validate import run
from experiments.validation.cases import CASES, Case, Fabric
from experiments.validation.compare import WITHIN, Cell, Comparison, compare
from experiments.validation.ns3 import (
    FactsError,
    config,
    controls,
    digest,
    facts_of,
    recorded,
    write,
)
from experiments.validation.ours import NotDoneError, Result, simulate
from experiments.validation.slowdown import Decile, deciles, one_way_ps
from observe.errors import UsageError

SMALL = CASES["small"]
FCT = "0b{:04x}01 0b{:04x}01 10000 100 {} {} {} {} {}\n"


def theirs(case: Case, late_ns: int = 0) -> str:
    """Return an FCT file of theirs in which each flow took 20 us, 12 of them to the last byte."""
    return "".join(
        FCT.format(a, b, size, start // 1000 - late_ns, 20_000, 10_000, 12_000)
        for a, b, size, start in reversed(case.connections())
    )


def test_fabric_is_that_of_hpccs_file() -> None:
    fabric = Fabric()
    rows = fabric.hpcc_file().splitlines()
    assert rows[0] == "376 56 480" and rows[1].split() == [str(n) for n in range(320, 376)]
    assert rows[2] == "0 320 100Gbps 1000ns 0.000000"
    assert rows[-1] == "359 375 400Gbps 1000ns 0.000000"
    spines = [row.split()[1] for row in rows if row.startswith("344 ")]
    assert spines == ["360", "361", "362", "363"]  # the first spine of each pod, the same cores


def test_links_between_hosts_are_those_of_leaf_pod_and_core() -> None:
    fabric = Fabric()
    assert [fabric.links_between(0, b) for b in (15, 16, 63, 64)] == [
        (2, 0), (2, 2), (2, 2), (2, 4),
    ]  # fmt: skip


def test_ideal_time_is_links_a_packet_on_each_and_all_bytes() -> None:
    found = one_way_ps(Fabric(), [(0, 1, 1000, 0), (0, 64, 1000, 0)], np.array([1048, 1048]))
    host, trunk = 1_000_000 + 81_920, 1_000_000 + 20_480
    assert found.tolist() == [2 * host + 83_840, 2 * host + 4 * trunk + 83_840]
    long = one_way_ps(Fabric(), [(0, 1, 10**10, 0)], np.array([10**10]))  # 0.8 s
    assert long.tolist() == [2 * host + 8 * 10**11]


def test_deciles_are_by_size_and_no_slowdown_is_below_one() -> None:
    sizes = np.arange(200, 0, -1)
    took = np.where(sizes <= 20, 500, sizes)  # the shortest tenth waits
    found = deciles(sizes, took, np.full(200, 100))
    assert [each.most_bytes for each in found] == list(range(20, 201, 20))
    assert found[0] == Decile(20, 20, 5.0, 5.0, 5.0)
    assert found[1].p99 == 1.0 and found[9].p50 == 1.91 and found[9].p99 == 2.0
    with pytest.raises(ValueError, match="9 flows can't be cut into 10"):
        deciles(sizes[:9], took[:9], took[:9])


def test_flows_are_the_recorded_ones() -> None:
    facts = [each for each in recorded() if each.case == "small"]
    assert {each.control for each in facts} == {"hpcc-dcqcn", "encc"}
    assert {each.flow_file_sha256 for each in facts} == {digest(SMALL)}
    assert digest(SMALL) != digest(SMALL, 101) != digest(replace(SMALL, seed=2), 101)


@pytest.mark.long
def test_flows_of_all_facts_are_the_recorded_ones() -> None:
    for facts in recorded():
        assert digest(CASES[facts.case], facts.port) == facts.flow_file_sha256, facts.case


def test_incasts_are_of_so_many_senders_to_one_receiver() -> None:
    case = replace(CASES["websearch-30-incast"], arrivals_us=1000)
    bursts: dict[tuple[int, int], set[int]] = {}
    for source, target, size, start in case._incasts():
        assert size == 500_000 and source != target
        bursts.setdefault((target, start), set()).add(source)
    assert bursts and all(len(senders) == 60 for senders in bursts.values())


def test_their_file_is_read_whatever_its_order_and_a_nanosecond_early() -> None:
    control = controls()["hpcc-dcqcn"]
    found = facts_of(SMALL, control, theirs(SMALL, late_ns=1), pauses=3, cpu_s=1.0)
    assert found.pauses == 3 and sum(each.flows for each in found.to_last_byte) == 102
    assert found.to_last_ack[0].p50 == 2.0
    assert found.to_last_byte[0].p50 == pytest.approx(12_000 / 6_280, rel=0.5)
    assert found.settings["RP_TIMER"] == 300


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda text: text.split("\n", 1)[1], "is missing: did the run end?"),
        (lambda text: text + FCT.format(0, 1, 77, 5, 1, 1, 1), "flows that this case does not"),
        (lambda text: text.replace(" 20000 10000", " 20000"), "line 1: 8 fields, 9 are expected"),
    ],
)
def test_files_of_other_flows_are_refused(change, says) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(FactsError, match=says.replace("?", r"\?")):
        facts_of(SMALL, controls()["hpcc-dcqcn"], change(theirs(SMALL)), 0, 0.0)


def test_facts_are_read_as_written_and_damaged_ones_named(tmp_path) -> None:  # type: ignore[no-untyped-def]
    found = facts_of(SMALL, controls()["encc"], theirs(SMALL), 0, 1.5)
    path = write(found, tmp_path)
    assert recorded(tmp_path)[0].to_last_ack[0] == found.to_last_ack[0]
    path.write_text(json.dumps({"simulator": {}, "case": "small"}))
    with pytest.raises(FactsError, match=path.name.replace("+", r"\+")):
        recorded(tmp_path)


def test_configuration_has_what_both_and_what_the_control_say() -> None:
    rows = config(controls()["hpcc-dcqcn-paper"], {"FLOW_FILE": "f.txt"}).splitlines()
    assert {"CC_MODE 1", "RP_TIMER 55", "BUFFER_SIZE 32", "FLOW_FILE f.txt"} <= set(rows)


def test_a_cell_is_within_by_its_ratio_or_where_ranges_of_several_runs_overlap() -> None:
    assert Cell(2.0, (2.0, 2.0), 2.3, (2.3, 2.3)).is_within(0.15)
    assert not Cell(2.0, (2.0, 2.0), 2.4, (2.4, 2.4)).is_within(0.15)
    assert Cell(2.0, (1.5, 2.6), 2.5, (2.4, 3.0)).is_within(0.15)
    assert not Cell(2.0, (1.5, 2.3), 2.5, (2.4, 3.0)).is_within(0.15)


def test_small_case_agrees_and_controls_differ() -> None:
    found = {name: compare("small", name, [1]) for name in ("hpcc-dcqcn", "encc")}
    for each in found.values():
        assert each.outside(WITHIN) == []
        assert each.ours[0].repeated == 0
    ours = [each.ours[0].deciles for each in found.values()]
    assert ours[0] != ours[1]


def test_flows_that_never_end_are_an_error_and_no_slowdown() -> None:
    lost = {"timeout": "1us", "retries": 0}  # no acknowledgement is back so soon
    control = controls()["hpcc-dcqcn"]
    with pytest.raises(NotDoneError, match="of 102 flows are not done"):
        simulate(SMALL, replace(control, transport={**control.transport, **lost}))


def test_what_is_outside_is_named_by_decile_and_percentile() -> None:
    there = recorded()[-1]
    worse = [replace(each, p99=each.p99 * 1.2) for each in there.to_last_byte]
    ours = Result(1, worse, 0.0, 0, 0, 0, 0.0)
    found = Comparison(there.case, there.control, None, [ours], [there])
    assert found.outside(0.15) == [f"decile {n} p99: 1.20" for n in range(1, 11)]
    assert found.outside(0.25) == []
    assert found.typical("p99") == pytest.approx(1.2) and found.typical("p50") == 1.0


def test_other_flows_and_variants_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(FactsError, match="no variant 'x'; available: cells"):
        compare("small", "hpcc-dcqcn", [1], "x")
    with pytest.raises(FactsError, match="nothing is recorded of small under ns3-rdma"):
        compare("small", "ns3-rdma", [1])
    monkeypatch.setitem(CASES, "small", replace(SMALL, seed=2))  # type: ignore[arg-type]
    with pytest.raises(FactsError, match="are of other flows"):
        compare("small", "encc", [1])


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--control", "nope"], "--control nope; available: "),
        (["--seeds", "0"], "--seeds 0: a number from 1 to 100"),
        (["--within", "101"], "--within 101: percent"),
        (["--variant", "cells"], "--variant cells: of which --control?"),
        (["small", "--control", "ns3-rdma"], "nothing is recorded of small under ns3-rdma"),
    ],
)
def test_wrong_arguments_say_what_would_be_right(words: list[str], says: str) -> None:
    found = CliRunner().invoke(run, words, standalone_mode=False)
    assert isinstance(found.exception, UsageError) and says in str(found.exception)


def test_command_prints_both_and_ends_with_one_where_they_differ() -> None:
    words = ["small", "--control", "encc", "--json"]
    close = CliRunner().invoke(run, words, standalone_mode=False)
    (shown,) = json.loads(close.stdout)
    assert close.return_value == 0 and shown["outside"] == [] and len(shown["deciles"]) == 10
    far = CliRunner().invoke(run, [*words, "--within", "1"], standalone_mode=False)
    assert far.return_value == 1 and json.loads(far.stdout)[0]["outside"]
