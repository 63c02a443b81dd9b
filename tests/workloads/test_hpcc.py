"""Flow files of HPCC's ns-3 as matrices, and back."""

from __future__ import annotations

from pathlib import Path

import pytest

from topologies import TopologyError
from workloads.hpcc import read_hpcc, write_hpcc
from workloads.loader import read_run
from workloads.plan import plan

FLOWS = """\
3
2 0 3 100 20000 2.000000123
0 3 3 100 1460 2.000000400
1 2 3 200 500000 3.500001000
"""
RUN = """\
topology: {generator: single, hosts: 4, link: {rate: 100Gbps, delay: 1us, queue: 1MB}}
traffic:
  - matrix: {hpcc: flow.txt, start: 2us}
"""


def test_flows_keep_ends_bytes_and_nanoseconds_from_the_first_ones_second() -> None:
    found = read_hpcc(FLOWS, "flow.txt")
    assert found == {
        "nodes": 4,
        "connections": [
            [2, 0, 20000, 123_000],
            [0, 3, 1460, 400_000],
            [1, 2, 500000, 1_500_001_000_000],
        ],
        "waits": [],
    }


def test_a_run_file_plans_a_flow_for_each_line(tmp_path: Path) -> None:
    (tmp_path / "flow.txt").write_text(FLOWS)
    traffic = plan(read_run(RUN, directory=tmp_path))
    rows = traffic.messages.messages
    assert rows["bytes"].tolist() == [20000, 1460, 500000]
    assert rows["start_ps"].tolist() == [2_123_000, 2_400_000, 1_500_003_000_000]
    assert traffic.flows["src"].tolist() == [2, 0, 1]


def test_what_is_written_is_read_again() -> None:
    rows = [(5, 1, 9, 7_000), (0, 5, 10**9, 2_000), (3, 4, 1, 10**12 - 1_000)]
    found = read_hpcc(write_hpcc(rows, port=7), "x")
    assert found["connections"] == [list(row) for row in sorted(rows, key=lambda row: row[3])]


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("3\n2 0", "2 0", "1:1: the first line is the number of flows, not '2 0 3 100"),
        ("3\n2 0", "2\n2 0", "1:1: 2 flows are announced, 3 there"),
        (" 20000 ", " ", "2:1: a flow has six fields (source, destination, priority group"),
        ("20000", "20k", "2:1: '20k' is not a whole number"),
        ("20000", "0", "2:1: a flow has 1 to 1000000000000 bytes, not 0"),
        ("20000", "9" * 18, "2:1: a flow has 1 to"),
        ("2 0 3", "2 2 3", "2:1: 2 sends to itself"),
        ("2 0 3", "-2 0 3", "2:1: '-2' is not a whole number"),
        ("2.000000123", "soon", "2:1: 'soon' is not a time in seconds"),
        ("2.000000123", "inf", "2:1: 'inf' is not a time in seconds"),
        ("2.000000400", "1.9", "3:1: begins at 1.9 s, before the flow above"),
        ("3.500001000", "9e9", "1:1: the last flow begins"),
        (FLOWS, "0\n", "1:1: there is no flow"),
        (FLOWS, "", "1:1: the first line is the number of flows, not ''"),
    ],
)
def test_what_is_no_flow_file_names_its_line(old: str, new: str, says: str) -> None:
    assert old in FLOWS
    with pytest.raises(TopologyError) as caught:
        read_hpcc(FLOWS.replace(old, new, 1), "flow.txt")
    assert f"flow.txt:{says}" in str(caught.value)


def test_nodes_that_are_not_there_and_missing_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "flow.txt").write_text("1\n0 9 3 100 5 0.1\n")
    with pytest.raises(TopologyError, match="10"):
        plan(read_run(RUN, directory=tmp_path))
    with pytest.raises(TopologyError, match=r"flow\.txt: can't be read"):
        read_run(RUN, directory=tmp_path / "elsewhere")
