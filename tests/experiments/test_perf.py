"""`weft perf` in the simulator, its figures, and what is said of wrong input."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from emulation import rdma
from experiments import perf_live
from experiments.perf_report import Bandwidth, bandwidth, jain, latency, peak_bps, percentile
from observe.errors import UsageError
from weft import cli, perf

PS_PER_BYTE = 20  # at 400 Gb/s
DELAY_PS = 500_000  # of each link of `single`: host - switch - host
WIRE = 8 + 14 + 20 + 8 + 12 + 4 + 4 + 12  # preamble, Ethernet, IPv4, UDP, BTH, ICRC, FCS, gap
RETH, AETH = 16, 4


def measured(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    """Return the result of `weft perf ... --json` in the simulator."""
    assert cli.main(["perf", *words, "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def way_ps(wire_bytes: int) -> int:
    """Return a packet's time from h1 to h2: two links, which store and forward."""
    return 2 * (wire_bytes * PS_PER_BYTE + DELAY_PS)


ACK_PS = (WIRE + AETH) * PS_PER_BYTE
# h1 posts 2 bytes (padded to 4) for h2; half of the round trip, or until READ's answer is there. A
# message that answers leaves behind the acknowledgement of what it answers; only the very first
# has none in front of it.
LATENCIES = {
    "write": (way_ps(WIRE + RETH + 4), ACK_PS),
    "send": (way_ps(WIRE + 4), ACK_PS),
    "read": (way_ps(WIRE + RETH) + way_ps(WIRE + AETH + 4), 0),
}


@pytest.mark.parametrize("operation", LATENCIES)
def test_latency_of_an_empty_fabric_is_the_sum_of_its_parts(
    operation: str, capsys: pytest.CaptureFixture[str]
) -> None:
    report = measured(capsys, operation, "h1", "h2", "--lat", "-n", "20", "--sim", "single")
    [measurement] = report["measurements"]
    [row] = measurement["rows"]
    assert (measurement["mode"], measurement["size"], row["iterations"]) == ("latency", 2, 20)
    way, ack = LATENCIES[operation]
    for column in ("t_max", "t_typical", "t_p99", "t_p999"):
        assert row[f"{column}_usec"] * 1e6 == pytest.approx(way + ack, abs=1), column
    assert row["t_min_usec"] * 1e6 == pytest.approx(way + ack / 2, abs=1)
    assert row["t_stdev_usec"] < 0.001


def test_bandwidth_is_the_link_s_payload_rate(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("write", "h1", "h2", "--bw", "-n", "300", "--sim", "single")
    report = measured(capsys, *words)
    assert (report["runtime"], report["clock"], report["time_scale"]) == ("simulator", "virtual", 1)
    assert report["parameters"]["mtu"] == 1024
    [row] = report["measurements"][0]["rows"]
    payload_share = 1024 / (1024 + WIRE)
    assert 0.98 * payload_share <= row["bw_average_gbps"] / 400 <= payload_share
    assert row["bw_peak_gbps"] >= row["bw_average_gbps"] * (1 - 1e-9)
    assert row["bytes"] == 300 * 65536
    rate = row["bw_average_gbps"] * 1e9 / (8 * 65536) / 1e6
    assert row["msg_rate_mpps"] == pytest.approx(rate)
    assert row["transport"]["repeated_packets"] == 0
    assert measured(capsys, *words) == report  # virtual time: the same call, the same numbers


def test_a_send_queue_of_one_waits_for_each_acknowledgement(
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = ("--bw", "-s", "64", "-n", "50", "--depth", "1", "--sim", "single")
    [row] = measured(capsys, "send", "h1", "h2", *words)["measurements"][0]["rows"]
    turn = way_ps(WIRE + 64) + way_ps(WIRE + AETH)
    assert row["elapsed_s"] * 1e12 == pytest.approx(50 * turn, rel=1e-6)


def test_two_sources_share_a_link(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("-q", "2", "-n", "100", "--depth", "2", "--bw", "--sim", "single")
    report = measured(capsys, "read", "h1,h2", "h3", *words)
    [measurement] = report["measurements"]
    rates = [row["bw_average_gbps"] for row in measurement["rows"]]
    assert [row["source"] for row in measurement["rows"]] == ["h1", "h2"]
    assert [row["iterations"] for row in measurement["rows"]] == [200, 200]
    assert measurement["jain"] == pytest.approx(jain(rates)) and measurement["jain"] > 0.99
    total = measurement["total"]
    assert total["bw_average_gbps"] == pytest.approx(sum(rates))
    assert 0.9 * 400 * 1024 / (1024 + WIRE) < sum(rates) < 400


def test_a_duration_bounds_it(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--bw", "--duration", "20us", "-s", "4kB", "--sim", "single")
    [row] = measured(capsys, "write", "h1", "h2", *words)["measurements"][0]["rows"]
    assert 0 < row["elapsed_s"] <= 21e-6 and row["iterations"] > 100


def test_all_sizes_and_the_tables(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["perf", "write", "h1", "h2", "-a", "-n", "1", "--sim", "single"]) == 0
    shown = capsys.readouterr().out
    for column in (
        "#bytes", "#iterations", "BW peak[Gb/sec]", "BW average[Gb/sec]", "MsgRate[Mpps]",
        "t_min[usec]", "t_max[usec]", "t_typical[usec]", "t_avg[usec]", "t_stdev[usec]",
        "99% percentile[usec]", "99.9% percentile[usec]",
    ):  # fmt: skip
        assert column in shown
    sizes = [line.split()[0] for line in shown.splitlines() if line[:10].strip().isdigit()]
    assert sizes == [str(1 << power) for power in range(1, 24)] * 2
    assert "runtime simulator, virtual time; time_scale 1" in shown
    assert "MTU 1024, DCQCN hpcc-dcqcn, go-back-n" in shown


WRONG = {
    "no such set": (["--set", "nope"], "choose ns3-rdma, hpcc-dcqcn-paper, hpcc-dcqcn, or none"),
    "fast CNPs alone": (["--congestion", "fast-cnp", "--set", "none"], "have DCQCN beside them"),
    "nothing to send": (["-s", "0"], "1 to 8388608 bytes"),
    "too much to send": (["-s", "1GB"], "1 to 8388608 bytes"),
    "no size": (["-s", "much"], "-s much"),
    "one size and all": (["-s", "8", "-a"], "-s and -a exclude each other"),
    "both only": (["--bw", "--lat"], "exclude each other"),
    "no message": (["-n", "0"], "-n 0: must be from 1"),
    "no queue pair": (["-q", "0"], "-q 0: must be from 1 to 16384"),
    "too many messages": (["-q", "1000", "-n", "10000"], "at most 1000000"),
    "no depth": (["--depth", "0"], "--depth 0"),
    "no time": (["--duration", "0s"], "more than nothing"),
    "a time of no unit": (["--duration", "soon"], "--duration soon"),
    "too large packets": (["--mtu", "4096"], "at most 1024"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_values(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    words, said = WRONG[name]
    assert cli.main(["perf", "write", "h1", "h2", "--sim", "single", *words]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert said in captured.err and captured.err.count("\n") == 1


WRONG_ENDS = {
    "unknown source": ("h9", "h1", "single has no host 'h9'; available: h1, h2, h3, h4"),
    "unknown target": ("h1", "s1", "single has no host 's1'"),
    "the same": ("h1", "h1", "the same host"),
    "one of several is the same": ("h2,h1", "h1", "the same host"),
    "twice": ("h1,h1", "h2", "named twice"),
    "no interface": ("h1:1", "h2", "it has one, number 0"),
    "nobody": (",", "h2", "which host measures?"),
}


@pytest.mark.parametrize("name", WRONG_ENDS)
def test_wrong_ends(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    source, target, said = WRONG_ENDS[name]
    assert cli.main(["perf", "write", source, target, "--sim", "single"]) == 2
    assert said in capsys.readouterr().err


def test_a_queue_pair_over_both_planes_has_two_lines(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("write", "h1", "h3", "--bw", "-n", "100", "--set", "none", "--sim", "dualplane")
    several = ("--interfaces", "all", "--retransmission", "selective-repeat", "--reorder", "10us")
    one, both = measured(capsys, *words), measured(capsys, *words, *several)
    planes = measured(capsys, *words, *several, "--failover")
    assert "interfaces" not in one["parameters"]
    assert both["parameters"]["interfaces"] == "all"
    [alone], [together] = (each["measurements"][0]["rows"] for each in (one, both))
    assert together["bw_average_gbps"] > 1.9 * alone["bw_average_gbps"]
    assert together["transport"]["repeated_packets"] == 0
    assert (both["parameters"].get("failover"), planes["parameters"]["failover"]) == (None, True)
    [apart] = planes["measurements"][0]["rows"]
    assert apart["bw_average_gbps"] > 1.9 * alone["bw_average_gbps"]
    assert apart["transport"]["repeated_packets"] == 0
    assert cli.main(["perf", *words, *several]) == 0
    assert "1 queue pair(s) a source, over all interfaces" in capsys.readouterr().out


WRONG_WAYS: dict[tuple[str, ...], str] = {
    ("h1:1", "h3", "--interfaces", "all"): "h1:1: queue pairs use all interfaces: write h1",
    ("h1", "h3", "--reorder", "10us"): "--reorder is for --retransmission selective-repeat",
    ("h1", "h3", "--reorder", "10"): "--reorder 10: ",
    ("h1", "h3", "--reorder", "0us"): "--reorder 0us: has to be more than nothing",
    ("h1", "h3", "--failover"): "--failover is of queue pairs over all interfaces",
    (
        *("h1", "h3", "--failover", "--interfaces", "all"),
    ): "--failover needs --retransmission selective-repeat",
    ("h1", "h3", "--interfaces", "two"): "'two' is not one of 'one', 'all'",
}


@pytest.mark.parametrize("words", WRONG_WAYS)
def test_ways_that_there_are_not(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["perf", "write", *words, "--sim", "dualplane"]) == 2
    assert WRONG_WAYS[words] in capsys.readouterr().err


def test_planes_that_do_not_meet(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["perf", "write", "h1", "h2:1", "--sim", "dualplane"]) == 2
    assert "h1 can't reach h2:1" in capsys.readouterr().err


def test_words_that_are_no_arguments(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["pull", "h1", "h2"], ["write", "h1"], ["write", "h1", "h2", "--mtu", "1000"]):
        assert cli.main(["perf", *words, "--sim", "single"]) == 2
    assert "Traceback" not in capsys.readouterr().err


def test_the_prompt_s_words() -> None:
    request = perf.parse(["send", "h1,h2", "h3", "-s", "4kB", "-q", "2", "--set", "none"])
    assert (request.operation, request.sources, request.target) == ("send", ("h1", "h2"), "h3")
    assert (request.sizes, request.qps, request.set_name) == ((4000,), 2, None)
    for words in ([], ["pull", "h1", "h2"], ["send", "h1"], ["send", "h1", "h2", "--sim", "x"]):
        with pytest.raises(UsageError, match=r"^perf write\|send\|read SRC DST"):
            perf.parse(words)


def test_a_set_for_what_has_none(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["write", "h1", "h2", "--congestion", "encc", "--set", "hpcc-dcqcn", "--sim", "single"]
    assert cli.main(["perf", *words]) == 2
    assert "--set hpcc-dcqcn: ENCC has no parameter sets" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "set_name", "control"),
    [
        ([], "hpcc-dcqcn", "dcqcn"),
        (["--congestion", "dcqcn", "--set", "ns3-rdma"], "ns3-rdma", "dcqcn"),
        (["--congestion", "fast-cnp"], "hpcc-dcqcn", "fast-cnp"),
        (["--congestion", "fast-cnp", "--set", "ns3-rdma"], "ns3-rdma", "fast-cnp"),
        (["--congestion", "none"], None, "none"),
        (["--set", "none"], None, "none"),
    ],
)
def test_congestion_control_is_chosen(words: list[str], set_name: str | None, control: str) -> None:
    request = perf.parse(["write", "h1", "h2", *words])
    assert (request.set_name, request.control) == (set_name, control)
    told = request.parameters()
    assert (told["congestion_control"], told["control"]) == (set_name or "none", control)
    assert told["fast_cnp"] is (control == "fast-cnp")


TWO_INTO_ONE = """\
generator: single
time_scale: 1
hosts: 3
link: {rate: 100Gbps, delay: 1us, queue: 4MB, mtu: 4200B}
stock_nics: [h2]
classes:
  cnp: {dscp: 48, queue: 6}
  roce: {dscp: 26, queue: 3, ecn: hpcc-dcqcn, fast_cnp: true}
  rest: {queue: 0}
"""


def test_fast_cnps_come_where_a_class_has_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where two meet; h2's card knows plain CNPs only."""
    topology = tmp_path / "fan-in.yaml"
    topology.write_text(TWO_INTO_ONE)
    words = ["perf", "write", "h1,h2", "h3", "--bw", "--duration", "300us", "--json", "--sim"]
    counts = {}
    for control in ("dcqcn", "fast-cnp"):
        assert cli.main([*words, str(topology), "--congestion", control]) == 0
        report = json.loads(capsys.readouterr().out)
        heard = control == "fast-cnp"
        assert [("DCQCN alone does not hear" in note) for note in report["notes"]] == [True][heard:]
        rows = report["measurements"][0]["rows"]
        counts[control] = {row["source"]: row["transport"] for row in rows}
    assert {each["fast_cnps"] for each in counts["dcqcn"].values()} == {0}
    assert counts["fast-cnp"]["h1"]["fast_cnps"] > 0
    assert counts["fast-cnp"]["h2"]["fast_cnps"] == 0
    assert sum(each["cnps"] for each in counts["dcqcn"].values()) > 0
    assert cli.main(["perf", "write", "h2", "h3", "-n", "1", "--bw", "--sim", str(topology)]) == 0
    assert "does not hear" not in capsys.readouterr().out  # its card is a stock one


def test_fast_cnps_that_no_class_sends_are_told_of(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["perf", "write", "h1", "h2", "-n", "2", "--bw", "--sim", "single"]
    assert cli.main([*words, "--congestion", "fast-cnp"]) == 0
    shown = capsys.readouterr().out
    assert "fast CNPs and DCQCN hpcc-dcqcn, go-back-n" in shown
    assert "no class of single has its switches send fast CNPs" in shown


def test_a_topology_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["perf", "write", "h1", "h2", "--sim", "nowhere"]) == 1
    assert "nowhere" in capsys.readouterr().err


# --- figures -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("share", "count", "wanted"),
    [(0.99, 100, 99), (0.99, 1000, 990), (0.999, 1000, 999), (0.99, 1, 1), (0.999, 100, 100)],
)
def test_percentiles_are_nearest_ranks(share: float, count: int, wanted: int) -> None:
    assert percentile(np.arange(1, count + 1), share) == wanted


def test_latency_figures() -> None:
    found = latency(np.array([4, 1, 3, 2], dtype=np.int64))
    assert found is not None
    assert (found.minimum_ps, found.maximum_ps, found.typical_ps, found.average_ps) == (
        1,
        4,
        2.5,
        2.5,
    )
    assert found.deviation_ps == pytest.approx(1.25**0.5)
    assert latency(np.array([], dtype=np.int64)) is None


def test_bandwidth_figures() -> None:
    posted = np.array([0, 0, 100, 200], dtype=np.int64)
    done = np.array([100, 200, 250, 400], dtype=np.int64)
    found = bandwidth(posted, done, 10)
    assert found == Bandwidth(4, 40, 400, peak_bps(posted, done, 10))
    assert found.average_bps == pytest.approx(40 * 8 / 400e-12)
    # The best run is the first three: 30 bytes in 250 ps.
    assert found.peak_bps == pytest.approx(30 * 8 / 250e-12)
    assert bandwidth(posted, np.array([], dtype=np.int64), 10) is None


def test_jain_s_index() -> None:
    assert jain([5, 5, 5]) == 1
    assert jain([1, 0, 0, 0]) == 0.25
    assert jain([0, 0]) == 1


def test_the_bar_ends_at_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    # Messages that are on their way at the end of --duration still arrive: it went to 146 % once.
    drawn: list[tuple[float | None, str]] = []
    clock = iter([100.0, 100.5, 101.46])
    monkeypatch.setattr("experiments.perf_live.time.monotonic", lambda: next(clock))
    work = rdma.Work("write", "bandwidth", 4096, count=1, depth=1, duration_ms=1000)
    tell = perf_live._teller(lambda share, text: drawn.append((share, text)), work)
    tell()
    tell()
    assert drawn == [
        (0.5, "bandwidth, 4096 B"),
        (1.0, "bandwidth, 4096 B, waiting for the last messages"),
    ]
