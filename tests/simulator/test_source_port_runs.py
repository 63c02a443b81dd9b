"""A flow that moves to another path of a fabric, in virtual time.

h1 - s1 -- s3 -- s2 - h2
       \\-- s4 --/          the links s1-s4 and s4-s2 are 5 us longer
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest

from simulator.flow_paths import FlowPaths
from simulator.runner import Outcome, Simulation
from tests.simulator.test_path_choice_runs import program
from workloads.loader import read_run
from workloads.model import RunFile

TEXT = Path("workloads/unequal-paths.yaml").read_text()
SIZE = 4_000_000
MOVES_AT = 100_000_000
SHORT, LONG = "s1:2", "s1:3"


def run_file(transport: str, port: int = 0xC000) -> RunFile:
    head = TEXT.split("transport:")[0].replace("until: 10ms", "")
    traffic = f"traffic: [{{message: {{from: h1, to: h2, bytes: {SIZE}B, udp_port: {port}}}}}]\n"
    return read_run(f"{head}transport: {{congestion_control: none, {transport}}}\n{traffic}")


@cache
def ports() -> dict[str, int]:
    """Return a source port for each of the paths."""
    simulation = Simulation(run_file("window: 9"), program())
    control = simulation.control
    paths = FlowPaths(simulation.fabric.topology, control.program, control.model.installed)
    found: dict[str, int] = {}
    for port in range(0xC000, 0xC100):
        flow = Simulation(run_file("window: 9", port), program()).traffic.flow(0)
        found.setdefault(f"s1:{paths.path(flow)[0][1]}", port)
        if len(found) == 2:
            break
    paths.close()
    return found


def moved(transport: str, first: str, then: str) -> Outcome:
    simulation = Simulation(run_file(transport, ports()[first]), program())
    port = ports()[then]
    simulation.at(MOVES_AT, lambda: simulation.engine.set_source_port(0, port))
    outcome = simulation.run()
    assert outcome.end.totals["messages_done"] == 1
    return outcome


def counted(outcome: Outcome) -> tuple[int, int, int]:
    stats = outcome.end.transport_stats
    assert stats is not None
    row, flow = stats[0], outcome.end.flow_stats[0]
    return int(row["repeated_packets"]), int(flow["out_of_order"]), int(row["timeouts"])


def test_the_first_part_goes_one_way_and_the_rest_the_other() -> None:
    outcome = moved("retransmission: go-back-n", SHORT, LONG)
    assert counted(outcome) == (0, 0, 0)
    ports_of = outcome.end.switches["s1"].ports
    by_short, by_long = (ports_of[n]["tx_packets"] for n in (2, 3))
    packets = -(-SIZE // 4096)
    assert by_short + by_long == packets
    at_line = MOVES_AT * 100_000_000_000 // (8 * 10**12 * (4096 + 82))
    assert abs(by_short - at_line) <= 2


@pytest.mark.parametrize(
    ("transport", "repeats"),
    [
        ("retransmission: go-back-n", True),
        ("retransmission: selective-repeat", True),
        ("retransmission: selective-repeat, reorder: 12us", False),
    ],
)
def test_a_shorter_path_overtakes_and_reorder_waits(transport: str, repeats: bool) -> None:
    repeated, out_of_order, timeouts = counted(moved(transport, LONG, SHORT))
    assert (repeated > 0) == repeats
    assert out_of_order > 0
    assert timeouts == 0


def test_two_runs_are_one() -> None:
    one, other = (moved("retransmission: go-back-n", LONG, SHORT).end for _ in range(2))
    assert np.array_equal(one.flow_stats, other.flow_stats)
    assert np.array_equal(one.message_times, other.message_times)
