"""Hops of flows as `weft top --hops`, JSON and metrics have them, from what endpoints say."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

import topologies
from emulation import run_state
from emulation.fabric_record import FabricRecord
from mechanisms.registry import path_records
from observe import flow_hops
from observe.flow_hops import HopRow, HopsSeen, hops_seen, latency_ns, rows_of, with_means
from observe.follow import Moment
from observe.metrics_exposition import Exposed, exposition
from observe.moment_json import moment_json
from observe.samples import SwitchSample
from topologies import Topology
from weft import top_hops

WRAPS = 1 << 24
SCALE = 1000
MS = 1_000_000
FABRIC = """
generator: leaf_spine
time_scale: 1000
leaves: 2
spines: 1
hosts_per_leaf: 2
link: {rate: 40Gbps, delay: 1us, queue: 1MB}
classes: {roce: {dscp: 26, queue: 3TOLD}, rest: {queue: 0}}
"""
BEGAN = {"s1": 5_000 * MS, "s3": 5_200 * MS, "s2": 4_900 * MS}


def fabric(told: str = ", path_telemetry: hops") -> Topology:
    return topologies.loads(FABRIC.replace("TOLD", told))


TOPOLOGY = fabric()
PORTS = path_records(TOPOLOGY).ports
NUMBERS = {place: number for number, place in PORTS.items()}
WAY = (("s1", 3), ("s3", 2), ("s2", 1))


def hop(place: tuple[str, int], queue: int, since: int, packets: int = 1) -> dict[str, int]:
    return {
        "hop": NUMBERS[place], "queue_bytes": queue, "since_ns": since % WRAPS,
        "rate_bps": 40 * 10**9, "packets": packets, "queue_sum": packets * queue,
        "since_sum_ns": packets * since,
    }  # fmt: skip


def pair(*hops: dict[str, int], written: int = 0) -> dict[str, Any]:
    said = {
        "hops": list(hops), "written": written or len(hops), "packets": 9, "changes": 2,
        "at": 70 * MS,
    }  # fmt: skip
    return {"qpn": 300, "peer_ip": "10.0.1.1", "collected": said}


def since(true_ns: int, before: str, here: str) -> int:
    """Return what two switches' clocks say of a time between them."""
    return true_ns - (BEGAN[here] - BEGAN[before]) // SCALE


def seen(began: dict[str, int] = BEGAN, packets: int = 1) -> list[HopRow]:
    said = pair(
        hop(WAY[0], 512, 0, packets),
        hop(WAY[1], 0, since(1200, "s1", "s3"), packets),
        hop(WAY[2], 230_400, since(180_000, "s3", "s2"), packets),
    )
    found = rows_of(
        "10.0.2.1", 75 * MS, [said, {"qpn": 4, "peer_ip": None}], TOPOLOGY, PORTS, began
    )
    return list(found)


def test_rows_are_named_and_clocks_that_began_apart_compared() -> None:
    rows = seen()
    assert [(row.source, row.target, row.hop, row.hops, row.place) for row in rows] == [
        ("h1", "h3", 1, 3, "s1:3"), ("h1", "h3", 2, 3, "s3:2"), ("h1", "h3", 3, 3, "s2:1"),
    ]  # fmt: skip
    assert [row.latency_ns for row in rows] == [None, 1200, 180_000]
    assert {(row.changes, row.age_s) for row in rows} == {(2, 0.005)}


def test_without_a_switch_s_clock_there_is_no_latency() -> None:
    rows = seen({"s1": BEGAN["s1"], "s2": BEGAN["s2"]})
    assert [row.latency_ns for row in rows] == [None, None, None]
    assert [row.queue_bytes for row in rows] == [512, 0, 230_400]


def test_hops_that_are_cut_off_are_counted_and_unknown_ports_are_a_question() -> None:
    far = hop(WAY[1], 0, 0) | {"hop": 60_000}
    (first, second) = rows_of(
        "10.0.2.1", 75 * MS, [pair(far, hop(WAY[2], 0, 7), written=7)], TOPOLOGY, PORTS, BEGAN
    )
    assert (first.hop, second.hop, second.hops) == (6, 7, 7)
    assert first.place == "?" and second.latency_ns is None


@pytest.mark.parametrize(
    ("said", "apart", "time"),
    [(700, 0, 700), (WRAPS - 300, 800, 500), (1200, -1300, 0), (100, WRAPS + 50.5, 150.5)],
)
def test_a_time_is_right_modulo_a_wrap_and_never_below_zero(
    said: int, apart: float, time: float
) -> None:
    assert latency_ns(said, apart) == time


def test_means_are_of_the_packets_since_the_look_before() -> None:
    before = seen(packets=10)
    now = [
        replace(
            row, packets=14, queue_sum=row.queue_sum + 4 * 1000,
            since_sum_ns=row.since_sum_ns + 4 * (since(300, "s1", "s3") if row.hop == 2 else 0),
        )
        for row in before
    ]  # fmt: skip
    found = list(with_means(now, before))
    assert [row.mean_queue_bytes for row in found] == [1000, 1000, 1000]
    assert found[1].mean_latency_ns == 300 and found[0].mean_latency_ns is None
    still = list(with_means(before, before))
    assert {row.mean_queue_bytes for row in still} == {None}, "nothing has come since"
    again = list(with_means([replace(row, packets=2) for row in before], before))
    assert again[0].mean_queue_bytes == before[0].queue_sum / 2, "another path in between"


def test_the_first_look_has_means_of_all() -> None:
    found = list(with_means(seen(packets=4), ()))
    assert found[2].mean_queue_bytes == 230_400
    assert found[2].mean_latency_ns == pytest.approx(180_000)


def moment(rows: list[HopRow], problem: str = "") -> Moment:
    record = FabricRecord("w0001", "softswitch", TOPOLOGY, {})
    return Moment(record, 0.0, {}, {}, 0.01, HopsSeen(tuple(rows), True, problem))


def test_a_row_reads_as_people_write_it() -> None:
    rows = list(with_means(seen(), ()))
    told = dict(zip(top_hops.COLUMNS, top_hops.cells(rows[2]), strict=True))
    assert told == {
        "flow": "h1>h3", "QP": "300", "hop": "3 of 3", "port": "s2:1", "line b/s": "40.0 G",
        "queue": "230 kB", "mean": "230 kB", "latency": "180 us", "mean latency": "180 us",
        "packets": "1", "paths": "3", "last seen": "5 ms",
    }  # fmt: skip
    assert top_hops.cells(rows[0])[7:9] == ["", ""]


@pytest.mark.parametrize(
    ("only", "count"),
    [
        ((), 3),
        (("h1",), 3),
        (("h3",), 3),
        (("s3",), 3),
        (("s2:1",), 3),
        (("h2",), 0),
        (("s2:2",), 0),
    ],
)
def test_flows_that_go_by_a_place_are_shown_whole(only: tuple[str, ...], count: int) -> None:
    at = moment(seen())
    rows = top_hops.hop_rows(at, only)
    assert len(rows) == count
    notes = top_hops.notes(at, rows)
    assert notes == (
        [] if count else ["no flow of which packets bring records goes by what was named"]
    )


def test_why_there_is_nothing_to_see(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(run_state.RUN_ROOT_VARIABLE, str(tmp_path))
    plain = hops_seen(FabricRecord("w0001", "softswitch", fabric(""), {}), {})
    assert not plain.possible and "path_telemetry: {format: hops, monitor: true}" in plain.problem
    record = FabricRecord("w0001", "softswitch", TOPOLOGY, {})
    assert hops_seen(record, {}) == HopsSeen(possible=True)
    assert top_hops.notes(moment([]), []) == ["no packet has come with records of hops yet"]
    (tmp_path / "w0001").mkdir()
    (tmp_path / "w0001" / "h1.rnic").touch()
    assert hops_seen(record, {}) == HopsSeen(possible=True), "nobody answers there"
    monkeypatch.setattr(flow_hops.os, "access", lambda path, mode: False)
    assert "only root may ask: use sudo" in hops_seen(record, {}).problem


def test_json_has_hops_only_where_switches_write_them() -> None:
    told = moment_json(moment(seen()))["hops"]
    assert [(row["switch"], row["port"], row["latency_ns"]) for row in told] == [
        ("s1", 3, None), ("s3", 2, 1200), ("s2", 1, 180_000),
    ]  # fmt: skip
    assert moment_json(moment([], "why"))["hops_problem"] == "why"
    plain = replace(moment([]), hops=HopsSeen())
    assert "hops" not in moment_json(plain)


def test_metrics_name_flow_and_hop() -> None:
    sample = {"s1": SwitchSample(0)}
    text = exposition(
        Exposed("w0001", "softswitch", TOPOLOGY, sample, 0.01, seen(packets=4))
    ).decode()
    found = {
        (each.name, each.labels["hop"]): each
        for family in text_string_to_metric_families(text)
        for each in family.samples
        if each.name.startswith("weft_flow_hop")
    }
    last = found["weft_flow_hop_queue_bytes_total", "3"]
    assert last.value == 4 * 230_400
    assert last.labels == {
        "source": "h1", "target": "h3", "queue_pair": "300", "hop": "3", "switch": "s2",
        "port": "1",
    }  # fmt: skip
    assert found["weft_flow_hop_packets_total", "1"].value == 4
    assert found["weft_flow_hop_latency_seconds", "2"].value == pytest.approx(1.2e-6)
    assert ("weft_flow_hop_latency_seconds", "1") not in found
