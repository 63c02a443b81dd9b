"""`weft bound`: optima that can be found by hand, proofs, and simulations that never beat them."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from mechanisms import registry
from simulator.runner import Simulation
from tests.mechanisms.dlb.test_policies import program
from topologies.concurrent_flow import (
    GAP,
    Demands,
    Network,
    Solution,
    UnreachableError,
    solve,
)
from topologies.flow_certificate import CertificateError, check
from weft.cli import main
from workloads.bound import Bound, BoundError, bound, soonest
from workloads.loader import read_run
from workloads.plan import plan

RUN = """\
topology:
  generator: leaf_spine
  leaves: 2
  spines: {spines}
  hosts_per_leaf: {hosts}
  link: {{rate: 100Gbps, delay: 500ns, queue: 32MB, mtu: 4200B}}
  host_link: {{rate: {host}}}
  overrides: [{overrides}]
  classes:
    roce: {{dscp: 26, queue: 3, lossless: true{policy}}}
until: 20ms
buffer: {{shared: 128MB, alpha: 1/2, headroom: formula}}
events: [{events}]
traffic: [{traffic}]
"""
ACROSS = "{{permutation: {{bytes: 2MB, payload: 4096B, dscp: 26, shift: {0}}}}}"
WIRE = 4096 + 82
PACKETS = -(-2_000_000 // 4096)
BYTES = 2_000_000 + 82 * PACKETS


def run_text(**more: Any) -> str:
    usual = {
        "spines": 2, "hosts": 4, "host": "100Gbps", "overrides": "", "policy": "", "events": "",
    }  # fmt: skip
    usual |= more
    usual.setdefault("traffic", ACROSS.format(usual["hosts"]))
    return RUN.format(**usual)


def found(**more: Any) -> Bound:
    run = read_run(run_text(**more))
    return bound(run, plan(run, 1))


def lines(*arcs: tuple[int, int, float]) -> Network:
    tail, head, capacity = zip(*arcs, strict=True)
    nodes = max(*tail, *head) + 1
    return Network(nodes, np.array(tail), np.array(head), np.array(capacity, dtype=float))


def demands(nodes: int, *pairs: tuple[int, int, float]) -> Demands:
    targets = sorted({to for _, to, _ in pairs})
    amount = np.zeros((len(targets), nodes))
    for source, to, size in pairs:
        amount[targets.index(to), source] += size
    return Demands(np.array(targets), amount)


# --- the program and its proof --------------------------------------------------------------------


def test_two_ways_of_400_and_200_carry_600() -> None:
    network = lines((0, 1, 400), (1, 3, 400), (0, 2, 200), (2, 3, 200))
    wanted = demands(4, (0, 3, 1200))
    solution = solve(network, wanted)
    proof = check(network, wanted, solution)
    assert proof.upper == pytest.approx(2.0) == proof.lower
    assert solution.flow[0].tolist() == pytest.approx([800, 800, 400, 400])


def test_two_that_share_one_arc_split_it() -> None:
    """0 and 1 to 3 by 2, whose way on has half of what both have."""
    network = lines((0, 2, 10), (1, 2, 10), (2, 3, 10))
    wanted = demands(4, (0, 3, 10), (1, 3, 20))
    assert check(network, wanted, solve(network, wanted)).lower == pytest.approx(3.0)


@pytest.mark.parametrize("seed", range(12))
def test_random_networks_are_proved(seed: int) -> None:
    """Leaves 0..4, spines 5..8, rates and demands at random."""
    draw = np.random.default_rng(seed)
    arcs = [
        (a, b, float(draw.integers(1, 9)))
        for leaf in range(5)
        for spine in range(5, 9)
        for a, b in ((leaf, spine), (spine, leaf))
    ]
    network = lines(*arcs)
    pairs = [(a, b, float(draw.integers(1, 50))) for a in range(5) for b in range(5) if a != b]
    wanted = demands(9, *pairs)
    proof = check(network, wanted, solve(network, wanted))
    assert 0 <= proof.gap < GAP
    assert proof.upper > 0


def test_a_flow_that_loses_something_is_no_proof() -> None:
    network = lines((0, 1, 400), (1, 3, 400), (0, 2, 200), (2, 3, 200))
    wanted = demands(4, (0, 3, 1200))
    good = solve(network, wanted)
    with pytest.raises(CertificateError, match="balance"):
        check(network, wanted, Solution(good.flow * [1, 0.9, 1, 1], good.length))
    with pytest.raises(CertificateError, match="below 0"):
        check(network, wanted, Solution(good.flow, -good.length))


def test_what_no_path_joins_is_named() -> None:
    with pytest.raises(UnreachableError) as raised:
        solve(lines((0, 1, 1), (2, 1, 1)), demands(3, (0, 2, 1)))
    assert (raised.value.source, raised.value.target) == (0, 2)


# --- run files ------------------------------------------------------------------------------------


def test_a_permutation_on_a_fabric_that_blocks() -> None:
    """Four hosts of 100 Gb/s a leaf, two uplinks of 100 Gb/s: twice the time of one host's link."""
    of = found()
    assert of.lower_s == pytest.approx(4 * BYTES * 8 / 200e9, rel=1e-9)
    assert of.gap < GAP and of.equal


def test_a_fabric_that_does_not_block_is_bound_by_its_hosts() -> None:
    assert found(spines=4).lower_s == pytest.approx(BYTES * 8 / 100e9, rel=1e-9)


def test_unequal_spines_add_up() -> None:
    """Two spines, one with half of the rate on both sides."""
    slow = "{between: [s1, s4], rate: 50Gbps}, {between: [s2, s4], rate: 50Gbps}"
    assert found(overrides=slow).lower_s == pytest.approx(4 * BYTES * 8 / 150e9, rel=1e-9)


def test_events_at_the_start_count_and_later_ones_do_not() -> None:
    dead = found(events="{at: 0us, link: s1-s3, do: down}")
    assert dead.lower_s == pytest.approx(4 * BYTES * 8 / 100e9, rel=1e-9)
    late = found(events="{at: 10us, link: s1-s3, do: down}")
    assert late.lower_s == found().lower_s


@pytest.mark.parametrize("policy", ["spray", "packet-dlb", "ecmp"])
@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("spines", [2, 3, 4])
def test_no_simulation_ends_before_it(policy: str, seed: int, spines: int) -> None:
    run = read_run(run_text(policy=f", load_balancing: {policy}", spines=spines))
    least = bound(run, plan(run, seed)).lower_ps
    simulation = Simulation(run, program(registry.defines(run.topology)), seed=seed)
    done = simulation.run().end.message_times["done"].astype(np.int64)
    assert (done >= 0).all()
    assert done.max() >= least
    if policy == "packet-dlb":
        assert done.max() < 1.2 * least


@pytest.mark.parametrize("size", ["100kB", "20MB"])
def test_a_spine_that_is_too_far_away_puts_nothing_off(size: str) -> None:
    """10 km to one of two spines and back are 100 us: a message of 100 kB has long arrived."""
    links = ("[s1, s4]", "[s2, s4]")
    far = ", ".join(f"{{between: {each}, delay: null, length: 10km}}" for each in links)
    message = f"{{message: {{from: h1, to: h2, bytes: {size}, payload: 4096B, dscp: 26}}}}"
    run = read_run(run_text(hosts=1, overrides=far, traffic=message))
    fastest = np.inf
    for seed in (1, 2, 3):
        simulation = Simulation(run, program(registry.defines(run.topology)), seed=seed)
        done = int(simulation.run().end.message_times["done"][0])
        least = bound(run, plan(run, seed)).lower_ps
        assert least <= done
        fastest = min(fastest, done / least)
    assert fastest < 1.15, "by the near spine it comes close"


def test_far_links_count_from_when_they_can_have_carried_something() -> None:
    half = np.array([0.5, 0.5])
    assert soonest(10.0, half, np.array([1.0, 3.0])) == 12.0
    assert soonest(10.0, half, np.array([1.0, 21.0])) == 21.0
    assert soonest(10.0, half, np.array([101.0, 1.0])) == 21.0, "twice as long by one of them"
    assert soonest(10.0, half, np.array([np.inf, 1.0])) == 21.0


@pytest.mark.parametrize(
    ("traffic", "wrong"),
    [
        (
            "{mix: {sizes: websearch, load: 50%, stop: 1ms, dscp: 26}}",
            "its messages start at different times",
        ),
        ("{incast: {to: h1, senders: 3, persistent: true, dscp: 26}}", "has no end"),
    ],
)
def test_what_has_no_bound_is_refused(traffic: str, wrong: str) -> None:
    with pytest.raises((BoundError, ValueError), match=wrong):
        found(traffic=traffic)


def test_the_command_prints_json_alone(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["bound", "host-paths", "--json"]) == 0
    said = json.loads(capfd.readouterr().out)
    assert said["gap"] < GAP and not said["cut"]
    assert said["lower_ps"] == pytest.approx(169.7e6, rel=1e-3)


def test_the_command_says_what_it_takes(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["bound", "incast-32"]) == 1
    assert "taken are messages that all start at once" in capfd.readouterr().err


@pytest.mark.long
def test_8192_hosts_are_proved_even_with_slow_links() -> None:
    """128 leaves, 64 spines: spines that are alike are solved as one, slow ones by themselves."""
    draw = np.random.default_rng(1)
    pairs = {(int(draw.integers(128)), int(draw.integers(64))) for _ in range(16)}
    slow = {(128 + spine, leaf) for leaf, spine in pairs}
    arcs = [
        (a, b, 100.0 if (a, b) in slow else 400.0)
        for leaf in range(128)
        for spine in range(128, 192)
        for a, b in ((leaf, spine), (spine, leaf))
    ]
    moved = draw.permutation(8192)
    amount = np.zeros((128, 192))
    np.add.at(amount, (moved // 64, np.arange(8192) // 64), 2e6 * 8)
    amount[np.arange(128), np.arange(128)] = 0
    network, wanted = lines(*arcs), Demands(np.arange(128), amount)
    proof = check(network, wanted, solve(network, wanted))
    leaving = amount.sum(axis=0)[:128] / (64 * 400)
    assert 0 <= proof.gap < GAP
    assert proof.upper >= leaving.max() * (1 - 1e-9)
    assert proof.lost < 1e-9
