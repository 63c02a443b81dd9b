"""`record: {paths: ...}`: which links flows take, how even uplinks are, gaps and order, in results.

Two leaves (or more) under spines; where ECMP's flows go is what the program itself says
(`FlowPaths`), and what else happens follows from the run file by hand.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from controller.program import CompiledProgram
from simulator.flow_paths import FlowPaths
from simulator.result_imbalance import Imbalance, uplinks
from simulator.runner import Simulation
from softswitch.program_cache import Job, compile_program
from topologies import loads
from workloads.loader import load_run_file, read_run

LEAF_SPINE = """\
topology:
  generator: leaf_spine
  leaves: {leaves}
  spines: {spines}
  hosts_per_leaf: {hosts}
  link: {{rate: 100Gbps, delay: 500ns, queue: 16MB, mtu: 4200B}}
  classes: {{roce: {{dscp: 26, queue: 3, load_balancing: {policy}}}, rest: {{queue: 0}}}}
sample: 10us
record: {{paths: {{window: {window}}}}}
traffic:
{traffic}
"""
FRAME = 1000 + 54 + 4 + 24  # payload 1000 B on the wire


@pytest.fixture(scope="module")
def program() -> CompiledProgram:
    found = compile_program(Job(Path(__file__).resolve().parents[2] / "p4src" / "fabric.p4"))
    return CompiledProgram.of(found)


def fabric(traffic: str, **changes: Any) -> str:
    words = {"leaves": 2, "spines": 2, "hosts": 2, "policy": "ecmp", "window": "100us"} | changes
    return LEAF_SPINE.format(traffic=traffic, **words)


def table(out: Path, name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = pq.read_table(out / f"{name}.parquet").to_pylist()
    return found


def test_flows_took_the_links_that_the_program_chooses(
    tmp_path: Path, program: CompiledProgram
) -> None:
    traffic = "  - permutation: {bytes: 20kB, payload: 1000B}"
    run = read_run(fabric(traffic, leaves=4, spines=3, hosts=4))
    simulation = Simulation(run, program)
    simulation.run(tmp_path)
    control, topology = simulation.control, run.topology
    chosen = FlowPaths(topology, control.program, control.model.installed)
    try:
        paths = chosen.of(simulation.traffic, range(16))
    finally:
        chosen.close()
    for number, ports in paths.items():
        rows = [row for row in table(tmp_path, "paths") if row["flow"] == number]
        source = str(simulation.traffic.flow(number).src)
        assert {row["from"] for row in rows} == {source, *(f"{n}:{port}" for n, port in ports)}
        assert {(row["packets"], row["bytes"]) for row in rows} == {(20, 20 * FRAME)}
    tiers = Counter(row["tier"] for row in table(tmp_path, "paths"))
    up = sum(len(ports) == 3 for ports in paths.values())
    assert up > 0
    assert tiers == {"host to leaf": 16, "leaf to host": 16} | dict.fromkeys(
        ("leaf to spine", "spine to leaf"), up
    )


def test_what_links_carried_is_what_flows_took(tmp_path: Path, program: CompiledProgram) -> None:
    traffic = "  - permutation: {bytes: 200kB, payload: 1000B, shift: 2}"
    Simulation(read_run(fabric(traffic, policy="spray")), program).run(tmp_path)
    carried, taken = Counter[str](), Counter[str]()
    for row in table(tmp_path, "links"):
        carried[row["from"]] += row["bytes"]
    for row in table(tmp_path, "paths"):
        taken[row["from"]] += row["bytes"]
    assert carried == taken


@pytest.mark.parametrize("packets", [300, 302, 400])
def test_turns_are_even_within_a_packet(
    tmp_path: Path, program: CompiledProgram, packets: int
) -> None:
    traffic = f"  - cbr: {{from: h1, to: h2, rate: 30Gbps, payload: 1000B, packets: {packets}}}"
    text = fabric(traffic, spines=3, hosts=1, policy="round-robin", window="1ms")
    Simulation(read_run(text), program).run(tmp_path)
    up = [r["packets"] for r in table(tmp_path, "paths") if r["tier"] == "leaf to spine"]
    assert len(up) == 3
    assert max(up) - min(up) == (packets % 3 > 0)
    (row,) = table(tmp_path, "imbalance")
    odd = FRAME if packets % 3 else 0
    assert (row["node"], row["start_ps"], row["links"]) == ("s1", 0, 3)
    assert (row["min_bytes"], row["max_bytes"]) == (
        packets // 3 * FRAME,
        packets // 3 * FRAME + odd,
    )
    assert row["imbalance_ppm"] == odd * 3 * 10**6 // (packets * FRAME)


def test_one_flow_under_ecmp_is_as_uneven_as_can_be(
    tmp_path: Path, program: CompiledProgram
) -> None:
    traffic = "  - cbr: {from: h1, to: h2, rate: 20Gbps, payload: 1000B, packets: 500}"
    text = fabric(traffic, spines=4, hosts=1, window="50us")
    summary = Simulation(read_run(text), program).run(tmp_path).summary
    rows = table(tmp_path, "imbalance")
    # 500 packets, one each 432.8 ns: 216.4 us, and a window of 50 us each
    assert [row["start_ps"] for row in rows] == [n * 50 * 10**6 for n in range(5)]
    assert {row["node"] for row in rows} == {"s1"}  # s2 sends no data up
    assert {row["imbalance_ppm"] for row in rows} == {4_000_000}
    assert sum(row["max_bytes"] for row in rows) == 500 * FRAME
    assert summary["paths"]["imbalance_ppm"]["p50"] == 4_000_000
    assert summary["paths"]["reordered_packets"] == 0


TWO_WAYS = """\
topology:
  switches: [s1, s2, {name: s3, role: spine}, {name: s4, role: spine}]
  hosts: [h1, h2]
  link: {rate: 100Gbps, delay: 500ns, queue: 4MB, mtu: 4200B}
  links:
    - {a: h1, b: s1:1}
    - {a: h2, b: s2:1}
    - {a: s1:2, b: s3:1}
    - {a: s1:3, b: s4:1, delay: 5us}
    - {a: s2:2, b: s3:2}
    - {a: s2:3, b: s4:2}
  classes: {roce: {dscp: 26, queue: 3, load_balancing: round-robin}, rest: {queue: 0}}
record: {paths: {}}
"""
LATE_PS = 4_500_000  # by s4


@pytest.mark.parametrize("gbps", [7, 1, 19])
def test_turns_over_unequal_paths_reorder_as_their_delays_say(
    tmp_path: Path, program: CompiledProgram, gbps: int
) -> None:
    traffic = f"cbr: {{from: h1, to: h2, rate: {gbps}Gbps, payload: 1000B, packets: 101}}"
    Simulation(read_run(f"{TWO_WAYS}traffic: [{traffic}]"), program).run(tmp_path)
    of_link = {row["from"]: row["packets"] for row in table(tmp_path, "paths")}
    # Of 101 packets the even ones are 51: the table says by which way they went.
    late = 0 if of_link["s1:3"] == 51 else 1
    interval = FRAME * 8 * 1000 // gbps
    came = sorted(range(101), key=lambda n: n * interval + (n % 2 == late) * LATE_PS)
    highest = [max(came[: place + 1]) for place in range(101)]
    behind = [most - psn for psn, most in zip(came, highest, strict=True)]
    (flow,) = table(tmp_path, "flows")
    assert flow["reordered_packets"] == sum(each > 0 for each in behind)
    assert flow["most_behind_packets"] == max(behind)
    (gap,) = table(tmp_path, "gaps")
    assert gap["packets"] == 100
    assert gap["gap_ns"] <= interval / 1000 < 2 * gap["gap_ns"]


def test_with_a_transport_what_is_repeated_counts_again(
    tmp_path: Path, program: CompiledProgram
) -> None:
    text = f"{TWO_WAYS}transport: {{congestion_control: none}}\n"  # go-back-N takes it for a loss
    text += "until: 1ms\ntraffic: [{message: {from: h1, to: h2, bytes: 100kB, payload: 1024B}}]"
    summary = Simulation(read_run(text), program).run(tmp_path).summary
    (flow,) = table(tmp_path, "flows")
    first = next(row for row in table(tmp_path, "paths") if row["from"] == "h1")
    assert flow["repeated_packets"] > 0
    assert first["packets"] == flow["sent_packets"]
    assert summary["paths"]["arrived_packets"] == flow["sent_packets"]
    assert 0 < flow["reordered_packets"] == summary["paths"]["reordered_packets"]


def test_a_flow_of_two_interfaces_takes_both(tmp_path: Path, program: CompiledProgram) -> None:
    """In turn; the second plane is 4.5 us longer, which at the rate of both is how far behind."""
    run = replace(load_run_file("two-interfaces"), until_ps=200 * 10**6, paths_window_ps=10**8)
    Simulation(run, program).run(tmp_path)
    of_link = {row["from"]: row["packets"] for row in table(tmp_path, "paths")}
    (flow,) = table(tmp_path, "flows")
    assert set(of_link) == {"h1", "h1:1", "s1:2", "s2:2"}
    assert of_link["h1"] + of_link["h1:1"] == flow["sent_packets"]
    assert abs(of_link["h1"] - of_link["h1:1"]) <= 1
    slot_ps = (4096 + 54 + 4 + 24) * 8 * 10
    assert flow["most_behind_packets"] == pytest.approx(2 * 4_500_000 / slot_ps, abs=2)
    late = of_link["s2:2"] / (of_link["s1:2"] + of_link["s2:2"])
    came = json.loads((tmp_path / "summary.json").read_text())["paths"]["arrived_packets"]
    assert flow["reordered_packets"] / came == pytest.approx(late, abs=0.02)
    assert table(tmp_path, "imbalance") == []  # a leaf alone has no uplinks


def test_without_the_key_there_is_none_of_it(tmp_path: Path, program: CompiledProgram) -> None:
    text = fabric("  - message: {from: h1, to: h3, bytes: 20kB}")
    plain = "\n".join(line for line in text.splitlines() if not line.startswith("record"))
    for run, name in ((text, "with"), (plain, "without")):
        Simulation(read_run(run), program).run(tmp_path / name)
    with_, without = (
        json.loads((tmp_path / name / "summary.json").read_text()) for name in ("with", "without")
    )
    more = {"gaps.parquet", "imbalance.parquet", "paths.parquet"}
    assert set(with_["files"]) - set(without["files"]) == more
    assert not any((tmp_path / "without" / name).exists() for name in more)
    assert "paths" in with_ and "paths" not in without
    same = set(without["files"]) - {"flows.parquet"}
    assert {name: with_["files"][name] for name in same} == {
        name: without["files"][name] for name in same
    }
    assert with_["files"]["links.parquet"]["rows"] > 0


def test_two_runs_record_the_same(tmp_path: Path, program: CompiledProgram) -> None:
    text = fabric("  - permutation: {bytes: 100kB}", policy="spray")
    files = [
        Simulation(read_run(text), program).run(tmp_path / name).summary["files"]
        for name in ("one", "other")
    ]
    assert files[0] == files[1]


def test_uplinks_lead_away_from_hosts() -> None:
    tree = loads(
        "{generator: fat_tree, time_scale: 1, k: 4, link: {rate: 100Gbps, delay: 1us, queue: 1MB}}"
    )
    found = uplinks(tree, tree.links)
    roles = Counter(tree.switch(name).role.value for name in found)
    assert roles == {"leaf": 8, "spine": 8}  # a core has none
    assert all(len(up) == 2 for up in found.values())
    for name, up in found.items():
        for lane in up:
            link = tree.links[lane // 2]
            assert (link.b if lane % 2 else link.a).node == name


def test_windows_by_hand(tmp_path: Path) -> None:
    """Three uplinks of s1, links 1 to 3, from end a; samples in two pieces, a window of 100 ps."""
    text = """
      time_scale: 1
      switches: [s1, {name: s2, role: spine}, {name: s3, role: spine}, {name: s4, role: spine}]
      hosts: [h1, h2]
      link: {rate: 100Gbps, delay: 1us, queue: 1MB}
      links:
        - {a: h1, b: s1:1}
        - {a: s1:2, b: s2:1}
        - {a: s1:3, b: s3:1}
        - {a: s1:4, b: s4:1}
        - {a: h2, b: s1:5}
    """
    topology = loads(text)
    writer = Imbalance(tmp_path / "imbalance.parquet", topology, topology.links, 100, {})
    kind = [("at", "<i8"), ("link", "<u4"), ("direction", "<u4"), ("bytes", "<u8")]
    rows = [
        (50, 1, 0, 200), (100, 1, 0, 100), (100, 2, 0, 100), (100, 3, 0, 200),  # [0, 100]
        (150, 0, 1, 999), (150, 1, 1, 999),  # to a host, and down: none of it counts
        (250, 2, 0, 7),  # (200, 300]
        (300, 2, 0, 3), (301, 1, 0, 30), (301, 2, 0, 30), (301, 3, 0, 30),
    ]  # fmt: skip
    samples = np.array(rows, kind)
    writer.add(samples[:2])
    writer.add(samples[2:])
    writer.close()
    found = [tuple(row.values()) for row in table(tmp_path, "imbalance")]
    assert found == [
        (0, "s1", 3, 100, 300, 200, 1_000_000),
        (200, "s1", 3, 0, 10, 3, 3_000_000),
        (300, "s1", 3, 30, 30, 30, 0),
    ]
    assert writer.spread()["max"] == 3_000_000
    assert writer.rows == 3
