"""The controller plans anew beside DPFR: neither undoes what the other does.

A fat tree with k = 4: leaves s1, s2 under s9, s10; s3, s4 under s11, s12; s9 and s11 share cores
s17 and s18, s10 and s12 the others. Without s1-s9 and s3-s12 no path from s1 to s3 goes up and
then down; one goes by s2: s1 s10 s2 s9 s17 s11 s3.
"""

from __future__ import annotations

import pytest

from controller.entries import TableEntry
from mechanisms import registry
from mechanisms.dpfr.ways import ways_of
from simulator.runner import Outcome, Simulation
from tests.mechanisms.dpfr.cuts import program
from workloads.loader import read_run

US = 1_000_000
DELAY_US = 200
RUN = """\
topology:
  generator: fat_tree
  k: 4
  link: {{rate: 100Gbps, delay: 500ns, queue: 1MB, mtu: 4200B}}
  classes: {{roce: {{dscp: 26, queue: 3}}}}
  dpfr: true
controller: {{delay: {delay}}}
until: 4ms
events: [{events}]
traffic:
  - message: {{from: h1, to: h5, bytes: 200kB, payload: 400B, rate: 400Mbps}}
"""
GAP_US = 446 * 8 / 400  # between two packets
BACK = ", {at: 1500us, link: s1-s9, do: up}, {at: 1500us, link: s3-s12, do: up}"
TWO = "{at: 500us, link: s1-s9, do: down}, {at: 500us, link: s3-s12, do: down}"


def played(events: str, delay: str = f"{DELAY_US}us") -> tuple[Simulation, Outcome]:
    run = read_run(RUN.format(events=events, delay=delay))
    simulation = Simulation(run, program(registry.defines(run.topology)))
    return simulation, simulation.run()


def lost_us(outcome: Outcome) -> float:
    """How long the flow was cut off, by what it lost."""
    stats = outcome.end.flow_stats[0]
    return float(stats["sent_packets"] - stats["received_packets"]) * GAP_US


def gone_round(simulation: Simulation, at: str) -> dict[int, int]:
    """Return a switch's state: by leaf, the ways that lead there."""
    return {
        dict(e.action.arguments)["number"]: dict(e.action.arguments)["ways"]
        for e in simulation.control.model.installed[at]
        if isinstance(e, TableEntry) and e.table == "dpfr_destination"
    }


@pytest.mark.parametrize("mended", ["", ", {at: 1500us, link: s1-s9, do: up}"])
def test_new_routes_cost_nothing_and_leave_dpfr_as_it_is(mended: str) -> None:
    simulation, outcome = played("{at: 500us, link: s1-s9, do: down}" + mended)
    assert (
        lost_us(outcome) < 60
    )  # that is DPFR; the controller's writes and the return lose nothing
    fabric = ways_of(simulation.fabric.topology)
    for name in ("s1", "s9", "s3"):
        assert gone_round(simulation, name).items() <= fabric.of(name).candidates.items()


@pytest.mark.parametrize("delay", [f"{DELAY_US}us", "20ms"])
def test_a_path_that_does_not_go_up_and_then_down_is_not_taken(delay: str) -> None:
    """As docs/dpfr.md says under its limits, whether or not the controller knows of one."""
    _, outcome = played(TWO, delay=delay)
    assert lost_us(outcome) > 3_000
    _, mended = played(TWO + BACK, delay=delay)
    assert 1_000 < lost_us(mended) < 1_000 + 128 * 8.4 + 60
