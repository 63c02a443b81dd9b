"""Run files with a transport, from the file to the results.

h1, h2, h3, h4 --100 Gb/s, 1 us-- s1        4096 B of payload take 4178 byte times of a wire
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from compiler import compile_p4
from controller.program import CompiledProgram
from mechanisms.dcqcn.parameters import parameters
from simulator.result_transport import jain_ppm
from simulator.runner import Outcome, Simulation
from weft.sim_transport import transport_rows
from workloads.loader import load_run_file, read_run
from workloads.plan import plan

FABRIC = Path(__file__).parents[2] / "p4src" / "fabric.p4"
GBPS = 10**9
MS = 10**9  # ps
PAYLOAD_SHARE = 4096 / 4178

RUN = """\
topology:
  generator: single
  hosts: 4
  link: {rate: 100Gbps, delay: 1us, queue: 16MB, mtu: 4200B}
  classes:
    cnp: {dscp: 48, queue: 6}
    roce: {dscp: 26, queue: 3, lossless: true, ecn: hpcc-dcqcn}
    rest: {queue: 0}
until: 2ms
buffer: {shared: 32MB, alpha: 1/2, headroom: formula}
transport: {TRANSPORT}
traffic:
  TRAFFIC
"""
TWO = "- incast: {to: h1, from: [h2, h3], persistent: true}"


@cache
def program() -> CompiledProgram:
    result = compile_p4(FABRIC)
    return CompiledProgram.of(result)


def text(transport: str = "", traffic: str = TWO, **changes: str) -> str:
    found = RUN.replace("TRANSPORT", transport).replace("TRAFFIC", traffic)
    for old, new in changes.items():
        assert old in found
        found = found.replace(old, new)
    return found


def run(given: str, out: Path | None = None, **options: Any) -> Outcome:
    return Simulation(read_run(given), program(), **options).run(out)


def table(out: Path, name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = pq.read_table(out / f"{name}.parquet").to_pylist()
    return found


@pytest.mark.parametrize("operation", ["write", "send", "read"])
def test_a_flow_alone_has_the_link(tmp_path: Path, operation: str) -> None:
    one = "- incast: {to: h1, from: [h2], persistent: true}"
    outcome = run(text(f"operation: {operation}", one), tmp_path)
    (flow,) = table(tmp_path, "flows")
    assert (flow["src"], flow["dst"]) == ("h2", "h1")
    assert flow["goodput_bps"] >= 0.98 * 100 * GBPS * PAYLOAD_SHARE
    assert (flow["transport"], flow["repeated_packets"], flow["cnps"]) == (0, 0, 0)
    assert (flow["cc_rate_bps"], flow["failure"]) == (None, None)
    assert outcome.summary["transport"]["failed"] == 0


def test_open_loop_beside_a_transport(tmp_path: Path) -> None:
    traffic = (
        "- message: {from: h2, to: h1, bytes: 1MB}\n"
        "  - message: {from: h3, to: h1, bytes: 1MB, transport: none}\n"
        "  - message: {from: h4, to: h2, bytes: 1MB, operation: read}\n"
        "  - cbr: {from: h4, to: h3, rate: 1Gbps}"
    )
    outcome = run(text("operation: send", traffic), tmp_path)
    assert outcome.summary["messages"]["done"] == 3
    flows = table(tmp_path, "flows")
    assert [flow["transport"] for flow in flows] == [0, None, 1, None]
    assert [flow["acks"] is None for flow in flows] == [False, True, False, True]
    told = outcome.summary["transports"]
    assert [(each["operation"], each["flows"]) for each in told] == [("send", 1), ("read", 1)]
    assert outcome.summary["transport"]["flows"] == 2
    assert outcome.summary["transport"]["received_bytes"] == 2 * 10**6


def test_without_a_transport_results_say_nothing_of_one(tmp_path: Path) -> None:
    given = text(traffic="- message: {from: h2, to: h1, bytes: 1MB}")
    summary = run(given.replace("transport: {}\n", ""), tmp_path).summary
    assert not {"transport", "transports"} & summary.keys()
    assert "transport" not in table(tmp_path, "flows")[0]
    assert pq.read_schema(tmp_path / "flow_rates.parquet").names == ["at_ps", "flow", "bytes"]
    assert list(transport_rows(summary)) == []


def test_every_parameter_is_told_as_it_ran(tmp_path: Path) -> None:
    given = "overrides: {rate_ai: 100Mbps}, timeout: 1ms, mtu: 1024B, ack_every: 4, udp_ports: 2"
    summary = run(text(given), tmp_path, time_scale=10).summary
    dcqcn = parameters("hpcc-dcqcn", 100 * GBPS, 10)
    (told,) = summary["transports"]
    assert told["dcqcn"] == {
        **json.loads(json.dumps(vars(dcqcn))),
        "name": "hpcc-dcqcn (changed)",
        "rate_ai_bps": 10_000_000,
    }
    assert {key: told[key] for key in told if key != "dcqcn"} == {
        "operation": "write",
        "retransmission": "go-back-n",
        "flows": 2,
        "mtu": [1024],
        "ack_every": 4,
        "window_packets": 4_194_304,
        "timeout_ps": 10 * MS,
        "retries": 7,
        "udp_ports": 2,
        "line_rate_bps": 10 * GBPS,
        "congestion_control": "dcqcn",
    }
    (ecn,) = summary["transport"]["ecn"]
    assert (ecn["class"], ecn["min_bytes"], ecn["max_bytes"]) == ("roce", 400_000, 1_600_000)
    printed = dict(transport_rows(summary))
    for number in ("g 1/256", "alpha timer 10us", "+10Mbps", "hpcc-dcqcn (changed) at 10Gbps"):
        assert number in printed["DCQCN"]
    assert (
        "an ACK for 4, window 4194304, time-out 10ms, 7 retries, 2 UDP ports"
        in (printed["transport"])
    )
    assert "from 400kB to 1600kB up to 20 %" in printed["ECN"]


def test_a_senders_line_is_its_own_interface_s() -> None:
    given = text().replace(
        "  generator: single\n  hosts: 4\n", "  switches: [s1]\n  hosts: [h1, h2, h3]\n"
    )
    given = given.replace(
        "  classes:",
        "  links:\n    - {a: h1, b: 's1:1'}\n    - {a: h2, b: 's1:2', rate: 25Gbps}\n"
        "    - {a: h3, b: 's1:3'}\n  classes:",
    )
    traffic = plan(read_run(given), 1)
    lines = [traffic.transports[n - 1].algorithms["dcqcn"] for n in traffic.flows["transport"]]
    assert [line.line_rate_bps for line in lines] == [25 * GBPS, 100 * GBPS]


def test_marks_slow_flows_down_and_samples_tell_how_far(tmp_path: Path) -> None:
    summary = run(text(), tmp_path).summary
    first, second = table(tmp_path, "flows")
    assert first["cnps"] > 0 and second["cnps"] > 0
    assert summary["transport"]["cnps"] == first["cnps"] + second["cnps"]
    assert summary["transport"]["repeated_packets"] == 0
    assert summary["drops"]["packets"] == 0
    for number, flow in enumerate((first, second)):
        rates = [
            row["cc_rate_bps"] for row in table(tmp_path, "flow_rates") if row["flow"] == number
        ]
        assert GBPS <= flow["cc_rate_bps"] < 100 * GBPS
        assert rates[-1] == flow["cc_rate_bps"]
        assert min(rate for rate in rates if rate) < 60 * GBPS


def test_what_is_lost_is_sent_again_and_counted(tmp_path: Path) -> None:
    lossy = text(
        "congestion_control: none",
        "- message: {from: h2, to: h1, bytes: 4MB}",
        **{"until: 2ms": "events: [{at: 1us, link: h2-s1, loss: 1%}]"},
    )
    for repeat in ("go-back-n", "selective-repeat"):
        out = tmp_path / repeat
        given = lossy.replace(": none}", f": none, retransmission: {repeat}}}")
        summary = run(given, out).summary
        assert summary["messages"]["done"] == 1, repeat
        (flow,) = table(out, "flows")
        assert flow["received_bytes"] == 4_000_000
        lost = summary["drops"]["packets"]
        assert lost > 0 and flow["repeated_packets"] >= 1
        assert flow["sent_packets"] == flow["repeated_packets"] + -(-4_000_000 // 4096)
        assert flow["naks"] + flow["timeouts"] > 0
        assert flow["missing_packets"] <= lost  # acknowledgements are lost, too
        told = dict(transport_rows(summary))
        assert f"{flow['repeated_packets']} packets" in told["sent again"]
        assert "no congestion control" in told["transport"]


def test_a_peer_that_is_cut_off_fails_its_queue_pairs_alone(tmp_path: Path) -> None:
    given = text(
        "timeout: 50us, retries: 2",
        "- message: {from: h2, to: h1, bytes: 40MB}\n  - message: {from: h3, to: h4, bytes: 4MB}",
        **{"until: 2ms": "events: [{at: 100us, link: h1-s1, do: down}]\nuntil: 3ms"},
    )
    summary = run(given, tmp_path).summary
    assert summary["messages"]["done"] == 1
    first, second = table(tmp_path, "flows")
    why = "no answer: retries exceeded"
    assert (first["failure"], second["failure"]) == (why, None)
    assert (first["timeouts"], first["messages_done"], second["messages_done"]) == (3, 0, 1)
    told = summary["transport"]
    assert (told["failed"], told["failures"]) == (1, {why: 1})
    assert told["failed_first"] == [{"flow": 0, "name": "h2->h1", "reason": why}]
    assert dict(transport_rows(summary))["failed"] == f"1 queue pair: h2->h1 (flow 0): {why}"
    assert summary["totals"]["failed_flows"] == 1


def test_shares_are_of_the_last_quarter(tmp_path: Path) -> None:
    # Without congestion control PFC has both take turns; a third begins too late to count.
    traffic = f"{TWO}\n  - incast: {{to: h1, from: [h4], persistent: true, start: 1900us}}"
    summary = run(text("congestion_control: none", traffic), tmp_path).summary
    sharing = summary["transport"]["sharing"]
    assert sharing["from_ps"] == 3 * MS // 2
    assert sharing["least"]["to"] == "h1" and sharing["least"]["flows"] == 2
    assert sharing["least"]["jain_ppm"] > 999_000
    assert sharing["jain_ppm"]["count"] == 1
    late = [row for row in table(tmp_path, "flow_rates") if row["at_ps"] > sharing["from_ps"]]
    shares = [sum(row["bytes"] for row in late if row["flow"] == flow) for flow in (0, 1)]
    assert sharing["least"]["jain_ppm"] == jain_ppm(shares)
    assert "of 2 flows to h1" in dict(transport_rows(summary))["fairness"]


@pytest.mark.parametrize(
    ("shares", "index"),
    [([5], 10**6), ([1, 1], 10**6), ([4, 0], 500_000), ([3, 1], 800_000), ([0, 0], 10**6)],
)
def test_jain_s_index(shares: list[int], index: int) -> None:
    assert jain_ppm(shares) == index


def test_the_same_run_gives_the_same_files(tmp_path: Path) -> None:
    files = []
    for name in ("one", "other"):
        run(text(), tmp_path / name, until_ps=MS // 2)
        files.append({f.name: f.read_bytes() for f in sorted((tmp_path / name).iterdir())})
    assert files[0] == files[1]


def test_two_flows_share_their_link(tmp_path: Path) -> None:
    loaded = load_run_file("two-flows")
    summary = Simulation(loaded, program()).run(tmp_path).summary
    assert summary["drops"]["packets"] == 0
    assert summary["transport"]["sharing"]["least"]["jain_ppm"] >= 990_000
    until_ps = loaded.until_ps or 0
    rates = table(tmp_path, "flow_rates")
    late = sum(row["bytes"] for row in rates if row["at_ps"] > 3 * until_ps // 4)
    assert late * 8 * 10**12 / (until_ps / 4) > 0.9 * 100 * GBPS * PAYLOAD_SHARE
    alone = [row for row in rates if row["at_ps"] <= 5 * MS]
    assert {(row["flow"], row["cc_rate_bps"]) for row in alone} == {(0, None)}


@pytest.mark.parametrize("name", ["incast-32-dcqcn", "two-flows"])
def test_shipped_runs_are_planned_with_their_set(name: str) -> None:
    loaded = load_run_file(name)
    traffic = plan(loaded, 1)
    assert set(traffic.flows["transport"].tolist()) == {1}
    assert traffic.transports[0].algorithms == {"dcqcn": parameters("hpcc-dcqcn", 100 * GBPS)}
    assert set(traffic.flows["payload"].tolist()) == {4096}


def test_the_ports_of_a_queue_pair_stay_in_roce_s_range() -> None:
    mix = "- mix: {sizes: hadoop, load: 50%, stop: 2ms}"
    one, several = (
        plan(read_run(text(f"udp_ports: {count}", mix)), 1).flows["udp_port"] for count in (1, 1024)
    )
    assert len(several) > 300
    assert one.max() > 65536 - 1024  # so that some have to be elsewhere
    assert several.min() >= 0xC000 and several.max() <= 65536 - 1024
