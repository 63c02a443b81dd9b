"""Flows from CSV, distributions of sizes from files, and mixes with a hotspot."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from topologies import TopologyError
from workloads.flow_csv import read_csv
from workloads.flow_sizes import MIXES, from_points
from workloads.loader import read_run
from workloads.plan import plan
from workloads.size_files import read_sizes

TOPOLOGY = (
    "topology: {generator: single, hosts: 8, link: {rate: 100Gbps, delay: 1us, queue: 1MB}}\n"
)
FLOWS = "dst, note, src, bytes, start_us\n3, x, 0, 20000, 0.5\n\n1, y, 2, 1460, 12.5\n"


def test_columns_are_found_by_name_and_starts_have_a_unit() -> None:
    found = read_csv(FLOWS, "f.csv")
    assert found == {
        "nodes": 4,
        "connections": [[0, 3, 20000, 500_000], [2, 1, 1460, 12_500_000]],
        "waits": [],
    }
    assert read_csv("src,dst,bytes\n0,1,5\n", "f")["connections"] == [[0, 1, 5, 0]]


def test_a_run_file_plans_a_flow_for_each_row(tmp_path: Path) -> None:
    (tmp_path / "f.csv").write_text(FLOWS)
    text = TOPOLOGY + "traffic: [{matrix: {csv: f.csv, start: 2us, hosts: [h2, h1, h4, h3]}}]\n"
    traffic = plan(read_run(text, directory=tmp_path))
    assert traffic.messages.messages["bytes"].tolist() == [20000, 1460]
    assert traffic.messages.messages["start_ps"].tolist() == [2_500_000, 14_500_000]
    assert traffic.flows["src"].tolist() == [1, 3]
    assert traffic.flows["dst"].tolist() == [2, 0]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "1:1: no column src"),
        ("source,dst,bytes\n0,1,5\n", "no column src"),
        ("src,dst,bytes,start\n0,1,5,1\n", "start has no unit: call it one of start_s"),
        ("src,dst,bytes,start_us,start_ns\n", "start_us and start_ns: give one start"),
        ("src,dst,bytes\n", "there is no flow"),
        ("src,dst,bytes\n0,1\n", "2:1: 2 values, but the first line names 3"),
        ("src,dst,bytes\n0,h1,5\n", "2:1: dst: 'h1' is no whole number"),
        ("src,dst,bytes\n1,1,5\n", "2:1: 1 sends to itself"),
        ("src,dst,bytes\n0,1,0\n", "a flow has 1 to"),
        ("src,dst,bytes,start_s\n0,1,5,-1\n", "'-1' is no time"),
        ("src,dst,bytes,start_s\n0,1,5,nan\n", "'nan' is no time"),
    ],
)
def test_a_wrong_table_names_file_and_line(text: str, says: str) -> None:
    with pytest.raises(TopologyError) as error:
        read_csv(text, "f.csv")
    assert says in str(error.value) and "f.csv" in str(error.value)


def test_a_file_draws_the_same_sizes_as_the_same_distribution_built_in() -> None:
    shipped = MIXES["websearch"]
    text = "# web search\n" + "\n".join(f"{size} {share / 10}" for size, share in shipped.points)
    words = np.arange(0, 1 << 32, 1 << 22, dtype=np.uint64)
    read = from_points("x", read_sizes(text, "cdf.txt"))
    assert np.abs(read.quantile(words) - shipped.quantile(words)).max() <= 2  # rounded shares


def test_a_file_that_begins_above_0_percent_has_that_many_of_its_smallest_size() -> None:
    found = from_points("x", read_sizes("100 50\n300 100\n", "cdf.txt"))
    words = np.array([0, 1 << 30, 1 << 31, 3 << 30], dtype=np.uint64)
    assert found.quantile(words).tolist() == [100, 100, 100, 200]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("0 0\n10 50\n", "ends at 100"),
        ("5 100\n", "two points at least"),
        ("0 0\n10 50\n5 100\n", "3:1: less than the line above"),
        ("0 0 0\n", "1:1: a point is bytes and percent, not 3 words"),
        ("a 0\n", "is not two numbers"),
        ("1.5 0\n", "whole bytes"),
        ("1 101\n", "0 to 100 percent"),
    ],
)
def test_a_wrong_distribution_names_file_and_line(text: str, says: str) -> None:
    with pytest.raises(TopologyError) as error:
        read_sizes(text, "cdf.txt")
    assert says in str(error.value) and "cdf.txt" in str(error.value)


MIX = TOPOLOGY + "traffic: [{mix: {load: 50%, stop: 2ms, MORE}}]\n"


def test_all_flows_have_the_size_that_is_given() -> None:
    traffic = plan(read_run(MIX.replace("MORE", "sizes: 64kB")))
    rows = traffic.messages.messages
    assert set(rows["bytes"].tolist()) == {64000}
    # 8 hosts x 100 Gb/s x 50 % x 2 ms / (64000 + 82 B a packet): 5 standard deviations of Poisson
    packets = -(-64000 // 1024)
    expected = 8 * 100e9 * 0.5 * 2e-3 / 8 / (64000 + 82 * packets)
    assert abs(len(rows) - expected) < 5 * expected**0.5


def test_sizes_come_from_a_file_beside_the_run_file(tmp_path: Path) -> None:
    (tmp_path / "cdf.txt").write_text("1000 50\n2000 50\n2000 100\n")
    traffic = plan(read_run(MIX.replace("MORE", "sizes: cdf.txt"), directory=tmp_path))
    counts = Counter(traffic.messages.messages["bytes"].tolist())
    assert 0.45 < counts[1000] / sum(counts.values()) < 0.55
    with pytest.raises(TopologyError, match=r"none\.txt: can't be read"):
        read_run(MIX.replace("MORE", "sizes: none.txt"), directory=tmp_path)


def test_a_hotspot_gets_its_share_and_what_chance_gives_it() -> None:
    more = "sizes: 16kB, hotspot: {hosts: [h3], share: 40%}"
    traffic = plan(read_run(MIX.replace("MORE", more)))
    to = traffic.flows["dst"][traffic.messages.messages["flow"]]
    assert (traffic.flows["src"] != traffic.flows["dst"]).all()
    # Of the 7 other hosts' messages 40 % and a seventh of the rest; its own go elsewhere.
    expected = 7 / 8 * (0.4 + 0.6 / 7)
    deviation = (expected * (1 - expected) / len(to)) ** 0.5
    assert abs((to == 2).mean() - expected) < 4 * deviation


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ("sizes: webserch", "did you mean 'websearch'?"),
        ("sizes: huge", "or a file (cdf.txt), or one size (64kB)"),
        ("sizes: 64kB, hotspot: {hosts: [h3], share: 0%}", "share"),
        ("sizes: 64kB, hosts: [h1, h2], hotspot: {hosts: [h3], share: 10%}", "none of the mix's"),
    ],
)
def test_a_wrong_mix_is_refused(more: str, says: str) -> None:
    with pytest.raises(TopologyError) as error:
        read_run(MIX.replace("MORE", more))
    assert says in str(error.value)
