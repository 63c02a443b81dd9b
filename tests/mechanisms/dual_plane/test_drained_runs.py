"""Planes drained by events of a run, in virtual time: nothing is lost, nothing is sent twice.

h1:0 h2:0 - s1        plane A, 200 Gb/s
h1:1 h2:1 - s2        plane B, 200 Gb/s
"""

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
from topologies import TopologyError
from workloads.loader import read_run

US = 10**6
ROUND_TRIP_US = 4
PROBE = 2  # frames: a question, and its answer
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
until: 400us
sample: 10us
transport: {congestion_control: none, retransmission: selective-repeat, interfaces: all, KEYS}
traffic: [{incast: {to: h2, from: h1, persistent: true, operation: OPERATION}}]
"""
DRAIN, UNDRAIN = "{at: 100us, plane: B, do: drain}", "{at: 200us, plane: B, do: undrain}"


@cache
def program() -> CompiledProgram:
    return CompiledProgram.of(compile_p4(FABRIC))


def made(events: str, keys: str = "failover: true", operation: str = "write") -> Simulation:
    text = RUN.replace("EVENTS", events).replace("KEYS", keys).replace("OPERATION", operation)
    return Simulation(read_run(text), program())


def is_whole(outcome: Outcome) -> bool:
    """Whether nothing was lost, repeated or failed, and no plane given up."""
    totals, transport = outcome.end.totals, outcome.summary["transport"]
    lost = [count for name, count in totals.items() if name.startswith("lost_") and count]
    again = transport["repeated_packets"], transport["timeouts"], transport["naks"]
    return not lost and not any(again) and not totals["failed_flows"]


def planes(out: Path) -> dict[tuple[str, int], dict[str, Any]]:
    rows = pq.read_table(out / "planes.parquet").to_pylist()
    return {(row["host"], row["interface"]): row for row in rows}


def sent(run: Simulation, interface: int) -> int:
    """Return the frames of all kinds that both hosts have sent by an interface."""
    nodes = [run.fabric.nodes[name] for name in ("h1", "h2")]
    return sum(run.engine.host_port_stats(node, interface).tx_packets for node in nodes)


def data(run: Simulation, interface: int) -> int:
    """Return the packets of data that either end has sent by an interface."""
    rows = run.engine.plane_rows()
    return int(rows["sent_packets"][rows["interface"] == interface].sum())


def received_gbps(run: Simulation, from_us: int, to_us: int) -> float:
    run.advance(from_us * US)
    before = int(run.engine.flow_stats(0, 1)["received_bytes"][0])
    run.advance(to_us * US)
    after = int(run.engine.flow_stats(0, 1)["received_bytes"][0])
    return (after - before) * 8 / (to_us - from_us) / 1000


@pytest.mark.parametrize("operation", ["write", "send", "read"])
def test_a_drained_plane_is_silent_after_a_round_trip(operation: str, tmp_path: Path) -> None:
    reorder = ", reorder: 10us" if operation == "read" else ""
    run = made(DRAIN, f"failover: true{reorder}", operation)
    both = received_gbps(run, 50, 100)
    run.advance((100 + ROUND_TRIP_US) * US)
    carried, silent = data(run, 1), sent(run, 1)
    one = received_gbps(run, 110, 390)
    assert data(run, 1) == carried
    assert sent(run, 1) <= silent + PROBE  # it is asked whether it works, once, as it fell silent
    assert one == pytest.approx(both / 2, rel=0.01)
    outcome = run.run(tmp_path)
    assert is_whole(outcome)
    assert outcome.summary["planes"]["losses"] == 0
    for (_, interface), row in planes(tmp_path).items():
        assert (row["state"] == "drained") == (interface == 1)
        assert interface == 0 or row["outstanding"] == 0


@pytest.mark.parametrize("events", [f"{DRAIN}, {UNDRAIN}", DRAIN.replace("}", ", lasts: 100us}")])
def test_undrained_it_carries_its_half_at_once(events: str, tmp_path: Path) -> None:
    run = made(events)
    both = received_gbps(run, 50, 100)
    assert received_gbps(run, 110, 200) == pytest.approx(both / 2, rel=0.01)
    assert received_gbps(run, 210, 390) == pytest.approx(both, rel=0.01)
    assert is_whole(run.run(tmp_path))
    assert planes(tmp_path)["h1", 1]["state"] in ("up", "asked")


def test_one_host_drains_what_it_sends_and_no_more(tmp_path: Path) -> None:
    run = made('{at: 100us, link: "h1:1-s2:1", do: drain}')
    both = received_gbps(run, 50, 100)
    assert received_gbps(run, 110, 390) == pytest.approx(both / 2, rel=0.01)
    assert is_whole(run.run(tmp_path))
    assert planes(tmp_path)["h1", 1]["state"] == "drained"
    assert planes(tmp_path)["h2", 1]["state"] == "up"


def test_who_receives_answers_by_an_interface_that_it_has_drained(tmp_path: Path) -> None:
    run = made('{at: 100us, link: "h2:1-s2:2", do: drain}')
    both = received_gbps(run, 50, 100)
    assert received_gbps(run, 110, 390) == pytest.approx(both, rel=0.01)
    assert is_whole(run.run(tmp_path))
    assert planes(tmp_path)["h2", 1]["state"] == "drained"


def test_with_all_planes_drained_hosts_go_on_by_all(tmp_path: Path) -> None:
    run = made(f"{DRAIN}, {DRAIN.replace('B', 'A')}")
    both = received_gbps(run, 50, 100)
    assert received_gbps(run, 110, 390) == pytest.approx(both, rel=0.01)
    assert is_whole(run.run(tmp_path))
    assert {row["state"] for row in planes(tmp_path).values()} == {"drained"}


def test_of_several_all_but_one_may_be_drained(tmp_path: Path) -> None:
    text = RUN.replace("KEYS", "failover: true").replace("OPERATION", "write")
    more = '    - {a: "h1:2", b: s3:1}\n    - {a: "h2:2", b: s3:2}\n  classes'
    text = text.replace("  classes", more).replace("[s1, s2]", "[s1, s2, s3]")
    text = text.replace("EVENTS", f"{DRAIN}, {DRAIN.replace('B', 'C')}")
    run = Simulation(read_run(text), program())
    all_three = received_gbps(run, 50, 100)
    run.advance((100 + ROUND_TRIP_US) * US)
    silent = sent(run, 1) + sent(run, 2)
    assert received_gbps(run, 110, 390) == pytest.approx(all_three / 3, rel=0.01)
    assert sent(run, 1) + sent(run, 2) <= silent + 2 * PROBE
    assert is_whole(run.run(tmp_path))


@pytest.mark.parametrize(
    "end", ["switch: s2, do: kill", "switch: s2, do: down", 'link: "h1:1-s2:1", do: down']
)
def test_a_drained_plane_may_be_taken_down(end: str, tmp_path: Path) -> None:
    run = made(
        f"{DRAIN}, {{at: {100 + ROUND_TRIP_US}us, {end}}}", "failover: true, link_delay: 0ns"
    )
    both = received_gbps(run, 50, 100)
    assert received_gbps(run, 110, 390) == pytest.approx(both / 2, rel=0.01)
    outcome = run.run(tmp_path)
    assert is_whole(outcome)
    assert outcome.summary["planes"]["moved_packets"] == 0


def test_where_the_other_plane_is_lost_the_drained_one_carries_all(tmp_path: Path) -> None:
    down = '{at: 150us, link: "h1:0-s1:1", do: down}'
    run = made(f"{DRAIN}, {down}", "failover: true, link_delay: 0ns")
    both = received_gbps(run, 50, 100)
    assert received_gbps(run, 200, 390) == pytest.approx(both / 2, rel=0.02)
    outcome = run.run(tmp_path)
    assert outcome.end.totals["failed_flows"] == 0
    assert outcome.summary["transport"]["timeouts"] == 0


def test_one_plane_at_a_time_moves_to_the_other(tmp_path: Path) -> None:
    run = made(f"{DRAIN}, {UNDRAIN}", "failover: {mode: migrate, first: 1}")
    one = received_gbps(run, 50, 100)
    run.advance((100 + ROUND_TRIP_US) * US)
    silent = sent(run, 1)
    assert received_gbps(run, 110, 390) == pytest.approx(one, rel=0.01)
    assert sent(run, 1) == silent  # nor after the end of it: the specification has no return
    outcome = run.run(tmp_path)
    assert is_whole(outcome)
    assert outcome.summary["migrations"]["by"] == {"drained": 2}


@pytest.mark.parametrize("transport", ["interfaces: all", "interfaces: one"])
def test_without_planes_there_is_nothing_to_drain(transport: str) -> None:
    text = RUN.replace("interfaces: all, KEYS", transport).replace("OPERATION", "write")
    with pytest.raises(
        TopologyError, match=r"plane B drain at 100us, and no queue pair has planes"
    ):
        read_run(text.replace("EVENTS", DRAIN))
    read_run(text.replace("EVENTS", UNDRAIN))  # it changes nothing
