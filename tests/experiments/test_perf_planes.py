"""`weft perf` on planes: what each carried, and what was lost by it.

h1 h2 - s1 - s5, s6 - s2 - h3 h4        plane A; B is the same of s3, s4, s7 and s8
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import topologies
from experiments.perf_planes import PlaneShare, shares
from weft import cli

PLANES = ("--interfaces", "all", "--failover", "--retransmission", "selective-repeat")
DUAL = """\
time_scale: 1
generator: dual_plane
spines: 2
leaves: 2
hosts_per_leaf: 2
link: {rate: 200Gbps, delay: 500ns, queue: 4MB, mtu: 4200B}
"""
COUNTS = {"sent_packets": 0, "sent_bytes": 0, "losses": 0, "moved_packets": 0}


def of_interface(number: int, **counts: int) -> tuple[int, dict[str, int]]:
    return number, {**COUNTS, **counts}


def report(capsys: pytest.CaptureFixture[str], file: Path, *words: str) -> dict[str, Any]:
    assert cli.main(["perf", *words, "--set", "none", "--json", "--sim", str(file), *PLANES]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


@pytest.fixture
def dual(tmp_path: Path) -> Path:
    (tmp_path / "dual.yaml").write_text(DUAL)
    return tmp_path / "dual.yaml"


def test_queue_pairs_are_summed_by_interface() -> None:
    topology = topologies.loads(DUAL)
    said = [
        of_interface(1, sent_packets=3, sent_bytes=3000, losses=1, moved_packets=2),
        of_interface(0, sent_packets=5, sent_bytes=5000),
        of_interface(1, sent_packets=2, sent_bytes=2000),
    ]
    assert shares(topology, topology.host("h2").interfaces[0], said) == (
        PlaneShare("h2", "A", 5, 5000, 0.5, 0, 0),
        PlaneShare("h2:1", "B", 5, 5000, 0.5, 1, 2),
    )
    assert shares(topology, topology.host("h2").interfaces[0], []) == ()


def test_planes_that_carried_nothing_have_no_share() -> None:
    topology = topologies.loads(DUAL)
    found = shares(topology, topology.host("h1").interfaces[0], map(of_interface, (0, 1)))
    assert [plane.share for plane in found] == [0, 0]


def test_interfaces_that_meet_have_no_planes_names() -> None:
    text = (
        DUAL.split("generator")[0]
        + """\
link: {rate: 200Gbps, delay: 500ns, queue: 4MB}
switches: [s1]
hosts: [h1, h2]
links: [{a: h1, b: s1:1}, {a: "h1:1", b: s1:2}, {a: h2, b: s1:3}]
"""
    )
    topology = topologies.loads(text)
    found = shares(topology, topology.host("h1").interfaces[0], map(of_interface, (0, 1)))
    assert [(plane.interface, plane.plane) for plane in found] == [("h1", ""), ("h1:1", "")]


@pytest.mark.parametrize(("operation", "sender"), [("write", "h1"), ("send", "h1"), ("read", "h3")])
def test_planes_share_what_leaves_the_data_s_end(
    operation: str, sender: str, dual: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # READs' responses say nothing of planes: some are asked for again that are on their way.
    reorder = ("--reorder", "50us") if operation == "read" else ()
    words = (operation, "h1", "h3", "-n", "100", "-q", "2", *reorder)
    measured = report(capsys, dual, *words)["measurements"]
    for measurement, wanted in zip(measured, (2 * 100 * 65536, 100 * 2), strict=True):
        (row,) = measurement["rows"]
        assert [plane["interface"] for plane in row["planes"]] == [sender, f"{sender}:1"]
        assert [plane["plane"] for plane in row["planes"]] == ["A", "B"]
        assert sum(plane["share"] for plane in row["planes"]) == pytest.approx(1)
        assert all(plane["losses"] == plane["moved_packets"] == 0 for plane in row["planes"])
        again = row["transport"]["repeated_bytes"]
        assert again == 0 or operation == "read"
        assert sum(plane["bytes"] for plane in row["planes"]) == wanted + again
    of_bandwidth = measured[0]["rows"][0]["planes"]
    assert all(plane["share"] == pytest.approx(0.5, abs=0.02) for plane in of_bandwidth)


def test_each_source_has_its_own(dual: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (measured,) = report(capsys, dual, "write", "h1,h2", "h3", "--bw", "-n", "50")["measurements"]
    by = [[plane["interface"] for plane in row["planes"]] for row in measured["rows"]]
    assert by == [["h1", "h1:1"], ["h2", "h2:1"]]
    for row in measured["rows"]:
        assert sum(plane["bytes"] for plane in row["planes"]) == 50 * 65536


def test_a_plane_that_is_lost_and_one_that_is_drained(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("write", "h1", "h3", "--bw", "-n", "200")
    found = {}
    for name, event in (
        ("lost", 'link: "h1:1-s3:1", do: down'),
        ("drained", "plane: B, do: drain"),
    ):
        file = tmp_path / f"{name}.yaml"
        file.write_text(f"{DUAL}events: [{{at: 100us, {event}}}]\n")
        (measured,) = report(capsys, file, *words)["measurements"]
        (row,) = measured["rows"]
        found[name] = row["planes"]
        assert row["failures"] == []
    for first, second in found.values():
        assert first["losses"] == first["moved_packets"] == 0
        assert 0.05 < second["share"] < 0.4
        assert first["share"] == pytest.approx(1 - second["share"])
    assert found["lost"][1]["losses"] == 1
    assert found["lost"][1]["moved_packets"] > 0
    assert (found["drained"][1]["losses"], found["drained"][1]["moved_packets"]) == (0, 0)
    assert sum(plane["bytes"] for plane in found["drained"]) == 200 * 65536


def test_the_table_has_a_row_a_plane(dual: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("write", "h1,h2", "h3", "--bw", "-n", "50", "--set", "none", "--sim", str(dual))
    assert cli.main(["perf", *words, *PLANES]) == 0
    said = capsys.readouterr().out
    rows = [line.split() for line in said[said.index("BW by plane") :].splitlines()[4:8]]
    assert [row[:5] for row in rows] == [
        [host, "65536", f"{host}{end}", plane, str(int(row[4]))]
        for row, (host, end, plane) in zip(
            rows,
            (("h1", "", "A"), ("h1", ":1", "B"), ("h2", "", "A"), ("h2", ":1", "B")),
            strict=True,
        )
    ]
    assert all(row[5].endswith("%") and row[6:] == ["0", "0"] for row in rows)
    assert cli.main(["perf", *words, "--interfaces", "all"]) == 0
    assert "by plane" not in capsys.readouterr().out
