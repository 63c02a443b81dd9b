"""Result files: what they hold, that the same rows give the same bytes, and the summary.

Samples and statistics are arrays with the layouts of the engine's structs, filled with numbers
whose results can be told by hand. The traffic is planned from this run file:

    h1, h2, h3, h4 --100 Gb/s, 1 us-- s1
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from simulator.core.binding import _dtype, native
from simulator.result_model import ResultError, RunEnd, RunIdentity, Stop, SwitchEnd
from simulator.result_statistics import nearest_rank, ratios, spread, total
from simulator.result_tables import ROWS_PER_GROUP, Column, TableWriter
from simulator.results import TABLES, ResultWriter
from workloads.loader import read_run
from workloads.model import Traffic
from workloads.plan import plan

RUN = """\
topology:
  generator: single
  hosts: 4
  link: {rate: 100Gbps, delay: 1us, queue: 1MB, mtu: 4200B}
  classes: {roce: {dscp: 26, queue: 3}, rest: {queue: 0}}
until: 1ms
traffic:
  - message: {from: h1, to: h2, bytes: 4KB}
  - message: {from: h3, to: h2, bytes: 8KB}
  - message: {from: h4, to: h2, bytes: 8KB}
"""
NODES = ("s1", "h1", "h2", "h3", "h4")
US = 10**6
IDENTITY = RunIdentity("three", seed=7, sample_ps=10 * US, versions={"weft": "1"})


def rows(struct: str, **columns: Any) -> Any:
    length = max(len(values) for values in columns.values())
    found = np.zeros(length, _dtype(native().ffi, struct))
    for name, values in columns.items():
        found[name] = values
    return found


@pytest.fixture(scope="module")
def traffic() -> Traffic:
    return plan(read_run(RUN), 1)


def ended(**changes: Any) -> RunEnd:
    """Message 0 done after 5 us, 1 after 9 us, 2 not: its flow got half."""
    flows = rows(
        "sim_flow_stats",
        sent_packets=[1, 2, 2],
        sent_bytes=[4000, 8000, 8000],
        received_packets=[1, 2, 1],
        received_bytes=[4000, 8000, 4096],
        marked=[0, 1, 0],
        first_sent=[0, 0, 0],
        last_sent=[US, US, US],
        first_received=[4 * US, 4 * US, 4 * US],
        last_received=[5 * US, 9 * US, 4 * US],
        delay_sum_ps=[5 * US, 9 * US, 4 * US],
        delay_max_ps=[5 * US, 5 * US, 4 * US],
    )
    times = rows(
        "sim_message_times",
        ready=[0, 0, 0],
        first_sent=[0, 0, 0],
        last_sent=[US, US, US],
        done=[5 * US, 9 * US, -1],
    )
    switch = SwitchEnd(
        stats={"ingress": 5, "drop_ingress": 2},
        ports={
            1: {"tx_packets": 3, "drop_queue": 4, "wait_ps": 5 * 10**9, "waited": 3},
            2: {"tx_packets": 0},
        },
        pfc={
            1: {"xoff_sent": (0, 0, 0, 2, 0, 0, 0, 0), "drop_headroom": (0,) * 3 + (6,) + (0,) * 4}
        },
        wires={2: {"send": {"lost": 1, "frames": 9}}},
    )
    host = {"tx_packets": 1, "tx_bytes": 4100, "paused_ps": (0, 0, 0, 250, 0, 0, 0, 0)}
    end = RunEnd(
        Stop.UNTIL,
        now_ps=1000 * US,
        totals={"hops": 5, "lost_link": 0},
        flow_stats=flows,
        message_times=times,
        switches={"s1": switch},
        host_ports={("h1", 0): host},
    )
    return replace(end, **changes)


def write(out: Path, traffic: Traffic, chunk: int = 10**9, **changes: Any) -> dict[str, Any]:
    writer = ResultWriter(out, traffic, IDENTITY, NODES)
    count = 300
    at = np.repeat(np.arange(count // 3) * 10 * US, 3)
    queue = rows("sim_queue_sample", at=at, node=[0] * count, port=np.arange(count) % 3 + 1)
    queue["queue"], queue["packets"], queue["bytes"] = 3, np.arange(count), np.arange(count) * 4178
    queue["paused"][5] = 1
    link = rows("sim_link_sample", at=at, link=np.arange(count) % 3, direction=np.arange(count) % 2)
    link["bytes"], link["packets"] = 125_000 * (np.arange(count) % 2), 30
    flow = rows("sim_flow_sample", at=at, flow=np.arange(count) % 3, bytes=[4096] * count)
    for first in range(0, count, chunk):
        part = slice(first, first + chunk)
        writer.queues(queue[part])
        writer.links(link[part])
        writer.flow_rates(flow[part])
    return writer.finish(ended(**changes))


def table(out: Path, name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = pq.read_table(out / f"{name}.parquet").to_pylist()
    return found


def test_every_table_is_there_and_names_its_run(tmp_path: Path, traffic: Traffic) -> None:
    summary = write(tmp_path, traffic)
    assert {path.name for path in tmp_path.iterdir()} == {
        "summary.json",
        *(f"{name}.parquet" for name in TABLES),
    }
    for name in TABLES:
        metadata = pq.read_metadata(tmp_path / f"{name}.parquet").metadata
        assert metadata[b"weft.runtime"] == b"simulator"
        assert metadata[b"weft.time_scale"] == b"1"
        assert metadata[b"weft.seed"] == b"7"
        entry = summary["files"][f"{name}.parquet"]
        assert entry["rows"] == len(table(tmp_path, name))
        content = (tmp_path / f"{name}.parquet").read_bytes()
        assert entry["sha256"] == hashlib.sha256(content).hexdigest()


def test_flows(tmp_path: Path, traffic: Traffic) -> None:
    write(tmp_path, traffic)
    first, second, third = table(tmp_path, "flows")
    assert (first["src"], first["dst"], first["class"]) == ("h1", "h2", 3)
    assert first["goodput_bps"] == 4000 * 8 * 10**12 // (5 * US)
    assert second["delay_mean_ps"] == 9 * US // 2
    assert second["marked"] == 1
    assert (second["messages"], second["messages_done"], second["completion_ps"]) == (1, 1, 9 * US)
    assert (third["missing_packets"], third["completion_ps"]) == (1, None)


def test_messages(tmp_path: Path, traffic: Traffic) -> None:
    write(tmp_path, traffic)
    first, _, third = table(tmp_path, "messages")
    assert (first["src"], first["dst"], first["bytes"]) == ("h1", "h2", 4000)
    assert first["completion_ps"] == 5 * US
    assert first["ideal_ps"] == traffic.ideal_ps[0]
    assert first["slowdown_ppm"] == 5 * US * 10**6 // int(traffic.ideal_ps[0])
    assert (third["done_ps"], third["completion_ps"], third["slowdown_ppm"]) == (None,) * 3


def test_spans_that_are_not_done_have_no_end(tmp_path: Path, traffic: Traffic) -> None:
    write(tmp_path, traffic)
    done = [row["end_ps"] for row in table(tmp_path, "jobs")]
    assert done == [5 * US, 9 * US, None]
    row = table(tmp_path, "jobs")[1]
    assert row["duration_ps"] == row["fct_p50_ps"] == row["fct_p99_ps"] == 9 * US
    assert row["slowdown_ppm"] == 9 * US * 10**6 // row["ideal_ps"]


def test_links_are_told_by_their_ends_and_their_use(tmp_path: Path, traffic: Traffic) -> None:
    summary = write(tmp_path, traffic)
    links = traffic.topology.links
    found = table(tmp_path, "links")
    for row in found[:6]:
        link = links[row["link"]]
        ends = [str(link.a), str(link.b)]
        assert [row["from"], row["to"]] == (ends if not row["bytes"] else ends[::-1])
    # 125 000 bytes in 10 us are 100 Gb/s.
    assert {row["used_ppm"] for row in found} == {0, 10**6}
    assert summary["samples"]["most_used_ppm"] == 10**6


def test_queues(tmp_path: Path, traffic: Traffic) -> None:
    summary = write(tmp_path, traffic)
    found = table(tmp_path, "queues")
    assert found[5] == {
        "at_ps": 10 * US,
        "node": "s1",
        "port": 3,
        "queue": 3,
        "packets": 5,
        "bytes": 5 * 4178,
        "paused": True,
    }
    assert summary["samples"]["most_queued_packets"] == 299


def test_ports_drops_and_pauses(tmp_path: Path, traffic: Traffic) -> None:
    summary = write(tmp_path, traffic)
    first, second = table(tmp_path, "ports")
    # 5 ms of packet time in 1 ms: five packets on average.
    assert (first["peer"], first["mean_depth_millipackets"]) == ("h1", 5000)
    assert (second["tx_packets"], second["wait_ps"]) == (0, None)
    drops = {
        (row["node"], row["port"], row["class"], row["reason"]): row["packets"]
        for row in table(tmp_path, "drops")
    }
    assert drops == {
        ("s1", None, None, "ingress"): 2,
        ("s1", 1, None, "queue"): 4,
        ("s1", 1, 3, "headroom"): 6,
        ("s1", 2, None, "wire_send_lost"): 1,
    }
    assert summary["drops"]["packets"] == 13
    pauses = [
        (r["node"], r["class"], r["xoff_sent"], r["paused_ps"]) for r in table(tmp_path, "pauses")
    ]
    assert pauses == [("s1", 3, 2, None), ("h1", 3, None, 250)]


def test_summary(tmp_path: Path, traffic: Traffic) -> None:
    summary = write(tmp_path, traffic)
    text = (tmp_path / "summary.json").read_text()
    assert json.loads(text) == json.loads(json.dumps(summary))
    assert text == json.dumps(summary, indent=2, sort_keys=True) + "\n"
    assert (summary["runtime"], summary["time_scale"], summary["run"]["seed"]) == (
        "simulator",
        1,
        7,
    )
    assert summary["end"] == {"reason": "until", "interrupted": False, "now_ps": 1000 * US}
    messages = summary["messages"]
    assert (messages["count"], messages["done"], messages["bytes"]) == (3, 2, 20_000)
    assert messages["completion_ps"] == {
        "count": 2,
        "mean": 7 * US,
        "p50": 5 * US,
        "p90": 9 * US,
        "p99": 9 * US,
        "max": 9 * US,
    }
    assert str(tmp_path) not in text


def test_the_same_run_gives_the_same_bytes_however_samples_come(
    tmp_path: Path, traffic: Traffic
) -> None:
    write(tmp_path / "a", traffic)
    write(tmp_path / "b", plan(read_run(RUN), 1), chunk=7)
    for path in sorted((tmp_path / "a").iterdir()):
        assert path.read_bytes() == (tmp_path / "b" / path.name).read_bytes(), path.name


def test_an_interrupted_run_says_so(tmp_path: Path, traffic: Traffic) -> None:
    assert write(tmp_path, traffic, stop=Stop.INTERRUPTED)["end"]["interrupted"] is True


def test_an_older_result_is_replaced_and_other_files_never(
    tmp_path: Path, traffic: Traffic
) -> None:
    write(tmp_path, traffic)
    writer = ResultWriter(tmp_path, traffic, IDENTITY, NODES)
    writer.abandon()
    assert not (tmp_path / "summary.json").exists()
    (tmp_path / "thesis.tex").write_text("x")
    with pytest.raises(ResultError, match=r"thesis\.tex") as caught:
        ResultWriter(tmp_path, traffic, IDENTITY, NODES)
    assert "new folder" in caught.value.remedy
    with pytest.raises(ResultError, match="can't write"):
        ResultWriter(tmp_path / "thesis.tex" / "out", traffic, IDENTITY, NODES)


def test_row_groups_do_not_depend_on_chunks(tmp_path: Path) -> None:
    values = np.arange(ROWS_PER_GROUP * 2 + 5)
    for name, chunk in (("a", len(values)), ("b", 100_000)):
        writer = TableWriter(tmp_path / name, [Column("x")])
        for first in range(0, len(values), chunk):
            writer.append({"x": values[first : first + chunk]})
        writer.close()
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    metadata = pq.read_metadata(tmp_path / "a")
    sizes = [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]
    assert sizes == [ROWS_PER_GROUP, ROWS_PER_GROUP, 5]
    assert np.array_equal(pq.read_table(tmp_path / "a")["x"].to_numpy(), values)


@pytest.mark.parametrize(
    ("values", "percent", "expected"),
    [
        ([5], 50, 5),
        ([1, 2], 50, 1),
        ([1, 2, 3], 50, 2),
        (range(1, 101), 99, 99),
        (range(1, 102), 99, 100),
        (range(1, 11), 99, 10),
        (range(1, 11), 0, 1),
        (range(1, 11), 100, 10),
    ],
)
def test_a_percentile_is_the_nearest_rank(values: Any, percent: int, expected: int) -> None:
    assert nearest_rank(list(values), percent) == expected


def test_statistics_are_exact_beyond_64_bits() -> None:
    large = np.full(4, 2**62)
    assert total(large) == 2**64
    assert spread(large)["mean"] == 2**62
    assert spread(np.array([], np.int64)) == {"count": 0}
    assert ratios(np.array([2**62, 3]), np.array([2**62, 2])).tolist() == [10**6, 1_500_000]
    assert ratios(np.array([-1, 1]), np.array([5, 0])).tolist() == [-1, -1]
    with pytest.raises(ValueError, match="no percentile"):
        nearest_rank([], 50)
