"""What a seed does to ECMP: flows are thrown at spines anew, as hashing theory says.

    h1 .. h8 - leaf1 =< 4 spines >= leaf2 - h9 .. h16        h1 sends to h9, h2 to h10, ...

Each of 8 flows takes any of 4 spines with the same chance: a spine's load is binomial(8, 1/4), and
how many flows the fullest one has is known exactly. Bounds are those of chance at one in 10^5.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cache

import numpy as np
import numpy.typing as npt

from simulator.flow_paths import FlowPaths
from simulator.runner import Simulation
from tests.simulator.fabric_program import fabric_program
from workloads.loader import read_run
from workloads.plan import plan

FLOWS, SPINES, SEEDS = 8, 4, 200
RUN = """\
topology:
  generator: leaf_spine
  leaves: 2
  spines: 4
  hosts_per_leaf: 8
  link: {rate: 100Gbps, delay: 1us, queue: 16MB, mtu: 4200B}
until: 100us
traffic:
""" + "".join(
    f"  - message: {{from: h{i}, to: h{i + FLOWS}, bytes: 1MB}}\n" for i in range(1, FLOWS + 1)
)


@cache
def choices() -> npt.NDArray[np.int64]:
    """Return the spine that each flow takes, by number: a row a seed."""
    run = read_run(RUN)
    simulation = Simulation(run, fabric_program())
    paths = FlowPaths(run.topology, fabric_program(), simulation.control.model.installed)
    spines = {switch.name: i for i, switch in enumerate(run.topology.switches[-SPINES:])}
    rows = []
    for seed in range(1, SEEDS + 1):
        found = paths.of(plan(run, seed), range(FLOWS))
        rows.append([spines[found[flow][1][0]] for flow in range(FLOWS)])
    paths.close()
    return np.array(rows)


def splits(flows: int, spines: int) -> Iterator[tuple[int, ...]]:
    """Every way to share flows out to spines, by their loads."""
    if spines == 1:
        yield (flows,)
        return
    for first in range(flows + 1):
        for rest in splits(flows - first, spines - 1):
            yield (first, *rest)


def fullest() -> npt.NDArray[np.float64]:
    """Return the chance that the fullest spine has 0, 1, ... 8 flows."""
    chance = np.zeros(FLOWS + 1)
    for loads in splits(FLOWS, SPINES):
        ways = math.factorial(FLOWS) // math.prod(math.factorial(load) for load in loads)
        chance[max(loads)] += ways / SPINES**FLOWS
    return chance


def test_every_flow_takes_every_spine() -> None:
    found = choices()
    for flow in range(FLOWS):
        seen = np.bincount(found[:, flow], minlength=SPINES)
        assert ((seen - SEEDS / SPINES) ** 2 / (SEEDS / SPINES)).sum() < 26  # 3 degrees of freedom
    seen = np.bincount(found.ravel(), minlength=SPINES)
    expected = SEEDS * FLOWS / SPINES
    assert ((seen - expected) ** 2 / expected).sum() < 26


def test_two_flows_meet_as_often_as_chance_says() -> None:
    found = choices()
    pairs = [(a, b) for a in range(FLOWS) for b in range(a)]
    meet = np.array([(found[:, a] == found[:, b]).mean() for a, b in pairs])
    width = math.sqrt(SEEDS * 1 / 4 * 3 / 4) / SEEDS
    assert abs(meet - 1 / 4).max() < 4.9 * width
    # Nor does a flow stay where it was with the seed before.
    stay = (found[1:] == found[:-1]).mean()
    assert abs(stay - 1 / 4) < 4.5 * math.sqrt(3 / 16 / (found.size - FLOWS))


def test_the_fullest_spine_is_as_full_as_balls_in_bins() -> None:
    loads = np.array([np.bincount(row, minlength=SPINES) for row in choices()])
    variance = FLOWS * 1 / 4 * 3 / 4
    assert abs(loads.var() - variance) < 0.2 * variance
    chance, sizes = fullest(), np.arange(FLOWS + 1)
    assert math.isclose(chance.sum(), 1)
    mean = float(chance @ sizes)
    spread = math.sqrt(chance @ (sizes - mean) ** 2 / SEEDS)
    most = loads.max(axis=1)
    assert abs(most.mean() - mean) < 4.5 * spread
    # Of the classes that are not rare: 2, 3, 4 flows, and 5 or more.
    grouped = np.array([*chance[2:5], chance[5:].sum()])
    seen = np.array([*((most == n).sum() for n in (2, 3, 4)), (most >= 5).sum()])
    assert ((seen - SEEDS * grouped) ** 2 / (SEEDS * grouped)).sum() < 26
