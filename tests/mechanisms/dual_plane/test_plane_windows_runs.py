"""Run files with `failover:` and an algorithm with a window: each plane has its own.

h1 ==(planes 0, 1)==  s1, s2  ==(planes 0, 1)== h2
h3, h4 --(plane 0)--  s1                            their other links are down
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
from mechanisms.registry import defines
from simulator.result_reader import ResultFolder
from simulator.runner import Simulation
from workloads.loader import read_run

US = 10**6
LINE = 100
UNTIL_US = 1500
RUN = """
topology:
  switches: [s1, s2]
  hosts: [h1, h2, h3, h4]
  link: {{rate: 100Gbps, delay: 500ns, queue: 8MB, mtu: 4200B}}
  links:
    - {{a: "h1:0", b: s1:1}}
    - {{a: "h2:0", b: s1:2}}
    - {{a: "h3:0", b: s1:3}}
    - {{a: "h4:0", b: s1:4}}
    - {{a: "h1:1", b: s2:1}}
    - {{a: "h2:1", b: s2:2}}
    - {{a: "h3:1", b: s2:3}}
    - {{a: "h4:1", b: s2:4}}
  classes:
    roce: {{dscp: 26, queue: 3, path_telemetry: hops}}
    cnp: {{dscp: 48, queue: 6}}
    rest: {{queue: 0}}
  events:
    - {{at: 0us, link: "h3:1-s2:3", do: down}}
    - {{at: 0us, link: "h4:1-s2:4", do: down}}
until: {until}us
sample: 5us
transport: {{congestion_control: {control}, retransmission: selective-repeat, interfaces: all,
            link_delay: 0ns, failover: {{}}}}
traffic:
  - incast: {{to: h2, from: [h1], persistent: true}}
  - incast: {{to: h2, from: [h3], persistent: true, start: 300us}}
  - incast: {{to: h2, from: [h4], persistent: true, start: 305us}}
"""
PAYLOAD = 4096 / (4096 + 58 + 24 + 16)


@cache
def program(wanted: tuple[str, ...]) -> CompiledProgram:
    return CompiledProgram.of(compile_p4(FABRIC, defines=wanted))


def gbps(out: Path, flow: int, first: int, last: int) -> float:
    """Return what a flow delivered in these microseconds, in Gb/s."""
    table = ResultFolder(out).table("flow_rates", ("at_ps", "flow", "bytes"))
    rows = zip(*(table[name].to_pylist() for name in table.column_names), strict=True)
    came = sum(size for at, own, size in rows if own == flow and first * US < at <= last * US)
    return float(came * 8 / 1000 / (last - first))


@pytest.mark.parametrize("control", ["encc", "swift", "powertcp"])
def test_a_plane_that_others_congest_leaves_the_other_one_full(
    control: str, tmp_path: Path
) -> None:
    """h3 and h4 have plane 0 alone: there three share a line, and plane 1 is all h1's."""
    run = read_run(RUN.format(until=UNTIL_US, control=control))
    end = Simulation(run, program(defines(run.topology))).run(tmp_path).end
    assert end.totals["failed_flows"] == 0
    first, *others = (gbps(tmp_path, flow, 800, UNTIL_US) for flow in range(3))
    line = LINE * PAYLOAD
    assert gbps(tmp_path, 0, 100, 300) >= 0.92 * 2 * line  # alone
    assert sum(others) + first >= 0.92 * 2 * line
    assert first - line == pytest.approx(line / 3, abs=0.12 * line)
    assert all(each == pytest.approx(line / 3, rel=0.2) for each in others)
    stats: Any = end.transport_stats
    assert int(stats["repeated_packets"].sum()) <= 64  # of h3 and h4, by links that were down
    rows = {
        (r["host"], r["interface"]): r
        for r in pq.read_table(tmp_path / "planes.parquet").to_pylist()
    }
    assert rows["h1", 1]["sent_bytes"] > rows["h1", 0]["sent_bytes"]


RING = """
topology:
  generator: dual_plane
  spines: 2
  leaves: 2
  hosts_per_leaf: 4
  link: {{rate: 200Gbps, delay: 500ns, queue: 4MB, mtu: 4200B}}
  classes:
    roce: {{dscp: 26, queue: 3, path_telemetry: hops}}
    cnp: {{dscp: 48, queue: 6}}
    rest: {{queue: 0}}
until: 2ms
transport: {{congestion_control: {control}, retransmission: selective-repeat, interfaces: all,
            failover: {{}}}}
job: {{ranks: 8, phases: [{{allreduce: {{bytes: 8MB, algorithm: ring}}}}]}}
"""


@pytest.mark.parametrize(("control", "most"), [("encc", 1.08), ("swift", 1.04)])
def test_acknowledgements_beside_data_both_ways_hold_up_no_window(
    control: str, most: float, tmp_path: Path
) -> None:
    """Each host sends and receives at the rate of both lines: a ring's AllReduce."""
    run = read_run(RING.format(control=control))
    outcome = Simulation(run, program(defines(run.topology))).run(tmp_path)
    assert outcome.summary["jobs"][0]["slowdown_ppm"] <= most * 10**6
    stats: Any = outcome.end.transport_stats
    assert int(stats["repeated_packets"].sum()) == 0
