"""Run files with `failover:`: what results say of planes, and when hosts hear of their links."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from compiler import compile_p4
from controller.program import CompiledProgram
from mechanisms.program import FABRIC
from simulator.runner import Outcome, Simulation
from workloads.loader import read_run

US = 10**6
RUN = """
topology:
  switches: [s1, s2]
  hosts: [h1, h2]
  link: {rate: 200Gbps, delay: 500ns, queue: 4MB, mtu: 4200B}
  links:
    - {a: "h1:0", b: s1:1}
    - {a: "h2:0", b: s1:2}
    - {a: "h1:1", b: s2:1}
    - {a: "h2:1", b: s2:2}
  classes: {roce: {dscp: 26, queue: 3}, cnp: {dscp: 48, queue: 7}}
  events: [EVENTS]
transport: {congestion_control: none, retransmission: selective-repeat, interfaces: all,
            reorder: 10us, KEYS}
traffic: [{message: {from: h1, to: h2, bytes: 16MB, operation: OPERATION}}]
"""
CUT = '{at: 100us, link: "h1:1-s2:1", do: down}'
AGAIN = '{at: 150us, link: "h1:1-s2:1", do: up}'
DEAF = "silence: 5ms"  # nothing but its link tells of a plane


@cache
def program() -> CompiledProgram:
    return CompiledProgram.of(compile_p4(FABRIC))


def run(keys: str, out: Path | None = None, events: str = CUT, operation: str = "write") -> Outcome:
    text = RUN.replace("KEYS", keys).replace("EVENTS", events).replace("OPERATION", operation)
    return Simulation(read_run(text), program()).run(out)


def planes(out: Path) -> list[dict[str, Any]]:
    return list(pq.read_table(out / "planes.parquet").to_pylist())


def lost(out: Path, host: str = "h1", interface: int = 1) -> dict[str, Any]:
    (row,) = (r for r in planes(out) if (r["host"], r["interface"]) == (host, interface))
    return row


@pytest.mark.parametrize("delay", [0, 1, 200, None])
def test_a_host_hears_of_its_link_after_the_delay(delay: int | None, tmp_path: Path) -> None:
    key = "" if delay is None else f", link_delay: {delay}us"
    run(f"failover: {{{DEAF}}}{key}", tmp_path)
    row = lost(tmp_path)
    assert (row["why"], row["losses"], row["state"]) == ("link", 1, "lost")
    wanted = (100 + (200 if delay is None else delay)) * US
    assert row["lost_ps"] == wanted
    assert lost(tmp_path, "h2")["why"] != "link"  # its own link is well


def test_what_is_sent_before_the_host_hears_is_lost(tmp_path: Path) -> None:
    soon = run(f"failover: {{{DEAF}}}, link_delay: 0us")
    late = run(f"failover: {{{DEAF}}}, link_delay: 50us")
    assert late.end.totals["lost_link"] > soon.end.totals["lost_link"]
    for outcome in (soon, late):
        assert outcome.end.totals["messages_done"] == 1
        assert outcome.end.totals["failed_flows"] == 0


def test_a_link_that_returns_meanwhile_is_heard_of_twice(tmp_path: Path) -> None:
    run(f"failover: {{{DEAF}, hold: 0ns, answers: 1}}", tmp_path, events=f"{CUT}, {AGAIN}")
    row = lost(tmp_path)
    assert row["losses"] == 1
    assert row["lost_ps"] == 300 * US
    assert row["state"] == "up"
    assert 350 * US <= row["up_ps"] <= 400 * US  # it is asked as soon as the host hears


@pytest.mark.parametrize("operation", ["write", "send", "read"])
def test_all_arrives_and_results_tell_of_planes(operation: str, tmp_path: Path) -> None:
    outcome = run("failover: true", tmp_path, operation=operation)
    assert outcome.end.totals["messages_done"] == 1
    rows = planes(tmp_path)
    assert [(r["host"], r["interface"]) for r in rows if r["sends"]] == [("h1", 0), ("h1", 1)]
    assert {(r["host"], r["interface"]) for r in rows} == {
        (host, interface) for host in ("h1", "h2") for interface in (0, 1)
    }
    sent = {r["interface"]: r["sent_bytes"] for r in rows if r["sends"]}
    assert sent[0] > sent[1] > 0
    assert sum(sent.values()) >= 16_000_000
    summary = outcome.summary["planes"]
    assert summary["count"] == 4
    assert summary["losses"] == sum(r["losses"] for r in rows) >= 1
    assert summary["lost"] == sum(r["state"] == "lost" for r in rows)
    assert summary["by"].get("link", 0) >= 1 or summary["by"].get("silent", 0) >= 1
    (told,) = outcome.summary["transports"]
    assert told["planes"] == {
        "use": "shared",
        "silence_ps": 50 * US,
        "misses": 3,
        "probe_ps": 1000 * US,
    }
    assert told["dual_plane"]["line_rate_bps"] == 200 * 10**9
    assert told["link_delay_ps"] == 200 * US


def test_one_plane_at_a_time_migrates_with_its_link(tmp_path: Path) -> None:
    told = "failover: {mode: migrate, first: 1, switch: 100us}, timeout: 4ms"
    outcome = run(told, tmp_path)
    assert outcome.end.totals["messages_done"] == 1
    assert outcome.end.totals["failed_flows"] == 0
    assert outcome.summary["transport"]["timeouts"] == 0
    assert outcome.summary["transports"][0]["planes"]["use"] == "single"
    flows = pq.read_table(tmp_path / "flow_rates.parquet").to_pydict()
    quiet = [at for at in flows["at_ps"] if 110 * US < at <= 390 * US]
    assert not quiet  # 100 us until it hears, 200 us; and 100 us of software
    assert not (tmp_path / "planes.parquet").exists()


BOTH_CUT = f'{CUT}, {{at: 100us, link: "h1:0-s1:1", do: down}}'


def test_all_planes_gone_is_one_error_when_the_time_outs_are_used_up() -> None:
    outcome = run("failover: true, timeout: 500us, retries: 3", events=BOTH_CUT)
    assert outcome.end.totals["failed_flows"] == 1
    assert outcome.end.totals["messages_done"] == 0
    assert 2_000 * US <= outcome.end.now_ps <= 12_000 * US  # it ends by itself


def test_all_planes_gone_and_one_back_in_time_loses_nothing() -> None:
    back = '{at: 1ms, link: "h1:0-s1:1", do: up}'
    outcome = run("failover: {hold: 1ms}, timeout: 2ms, retries: 7", events=f"{BOTH_CUT}, {back}")
    assert outcome.end.totals["failed_flows"] == 0
    assert outcome.end.totals["messages_done"] == 1


def test_without_planes_nothing_is_said_of_any(tmp_path: Path) -> None:
    outcome = run("timeout: 500us", tmp_path)
    assert "planes" not in outcome.summary
    assert not (tmp_path / "planes.parquet").exists()
