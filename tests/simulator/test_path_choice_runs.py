"""Hosts that choose paths, over a leaf-spine fabric: what they gain, and what the choice changes.

   s5   s6   s7   s8      spines; one link into a leaf may be slow
  /  \\ ...   ECMP by the 5-tuple
s1   s2   s3   s4         leaves, four hosts each
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest

from compiler import compile_p4
from controller.program import CompiledProgram
from mechanisms.program import FABRIC
from simulator.runner import Outcome, Simulation
from weft.sim_transport import transport_rows
from workloads.loader import read_run
from workloads.plan import plan

RUN = """
topology:
  generator: leaf_spine
  leaves: 4
  spines: 4
  hosts_per_leaf: 4
  link: {rate: 100Gbps, delay: 1us, queue: 32MB, mtu: 4200B}
  classes:
    control: {dscp: 48, queue: 6}
    roce: {dscp: 26, queue: 3, lossless: true, ecn: {min: 30kB, max: 120kB, probability: 100%}}
    rest: {queue: 0}
until: 20ms
seed: SEED
buffer: {shared: 128MB, alpha: 1/2, headroom: formula}
clocks: {ppm: 50}
transport: {congestion_control: none, retransmission: selective-repeat, reorder: 500us,
            ack_class: control, ack_every: 1, MORE}
traffic: [{permutation: {bytes: 2MB, payload: 4096B, dscp: 26, shift: 4}}]
"""
SLOW = '\nevents: [{at: 0us, link: "s2:5-s5:2", degraded: 25%, towards: s2}]'
LINE_RATE_US = 168.0
SEEDS = range(1, 6)


@cache
def program() -> CompiledProgram:
    return CompiledProgram.of(compile_p4(FABRIC))


def text(more: str, seed: int = 1, *, slow: bool = False) -> str:
    return RUN.replace("MORE", more).replace("SEED", str(seed)) + (SLOW if slow else "")


@cache
def run(more: str, seed: int = 1, *, slow: bool = False) -> Outcome:
    return Simulation(read_run(text(more, seed, slow=slow)), program()).run()


def slowest_us(more: str, seed: int = 1, *, slow: bool = False) -> float:
    times = run(more, seed, slow=slow).end.message_times
    done = times["done"].astype(np.int64)
    assert (done >= 0).all()
    return float((done - times["ready"].astype(np.int64)).max()) / 1e6


def choice(kind: str) -> str:
    return f"path_choice: {{kind: {kind}, paths: 128}}"


def median(more: str, *, slow: bool = False) -> float:
    return float(np.median([slowest_us(more, seed, slow=slow) for seed in SEEDS]))


def test_spraying_beats_the_hash_and_reps_beats_spraying() -> None:
    """The bitmap is no better than spraying here: 16 hosts have few paths that last as bad ones."""
    hashed, sprayed, bitmap, reps = (
        median(choice(kind)) for kind in ("single", "oblivious", "bitmap", "reps")
    )
    assert LINE_RATE_US < reps < 0.98 * min(sprayed, bitmap)
    assert max(sprayed, bitmap) < 0.6 * hashed
    assert reps < 1.1 * LINE_RATE_US


def test_a_slow_link_hurts_those_least_who_hear_of_it() -> None:
    """Not by much: the leaf gets more than its links carry, and nobody slows down."""
    sprayed, reps = (median(choice(kind), slow=True) for kind in ("oblivious", "reps"))
    assert reps < 0.9 * sprayed


def test_without_a_choice_nothing_is_otherwise() -> None:
    for more in ("window: 1024", "path_choice: {kind: single}, window: 1024", "queue_pairs: 1"):
        assert np.array_equal(run(more).end.message_times, run("window: 1024").end.message_times)


@pytest.mark.parametrize("kind", ["oblivious", "bitmap", "reps", "plb"])
def test_nothing_is_lost_or_sent_again_and_runs_repeat(kind: str) -> None:
    stats = run(choice(kind)).end.transport_stats
    assert stats is not None
    assert stats["repeated_packets"].sum() == stats["timeouts"].sum() == 0
    again = Simulation(read_run(text(choice(kind))), program()).run()
    assert np.array_equal(again.end.message_times, run(choice(kind)).end.message_times)


def test_plb_keeps_the_order_nearly() -> None:
    """Flows that share a link are marked, and a sender moves seldom."""
    more = f"{choice('plb')[:-1]}, idle_rounds: 2}}"
    flow = run(more).end.flow_stats
    assert int(flow["out_of_order"].sum()) < 0.01 * int(flow["received_packets"].sum())


def test_summaries_name_the_choice(tmp_path: Path) -> None:
    more = "path_choice: {kind: plb, rounds: 6}, queue_pairs: 2"
    outcome = Simulation(read_run(text(more)), program()).run(tmp_path)
    (transport,) = outcome.summary["transports"]
    assert transport["path_choice"] == {"kind": "plb", "rounds": 6, "pause_ns": 60_000_000_000}
    assert (transport["udp_ports"], transport["queue_pairs"]) == (128, 2)
    shown = dict(transport_rows(outcome.summary))["transport"]
    assert "128 UDP ports chosen by plb, messages striped over 2 queue pairs" in shown


# --- messages over several queue pairs ------------------------------------------------------------


def test_stripes_have_ports_of_their_own_and_all_of_the_bytes() -> None:
    traffic = plan(read_run(text("queue_pairs: 3")))
    flows, messages = traffic.flows, traffic.messages.messages
    assert len(flows) == len(messages) == 48
    sizes = messages["bytes"].astype(np.int64).reshape(-1, 3)
    assert (sizes.sum(axis=1) == 2_000_000).all() and np.ptp(sizes) <= 1
    ends = flows[["src", "dst"]].reshape(-1, 3)
    assert (ends == ends[:, :1]).all()
    assert all(len(set(ports)) == 3 for ports in flows["udp_port"].reshape(-1, 3).tolist())


def test_the_next_message_waits_for_all_stripes() -> None:
    repeated = text("queue_pairs: 4").replace("shift: 4", "shift: 4, count: 3")
    times = Simulation(read_run(repeated), program()).run().end.message_times
    done = times["done"].astype(np.int64).reshape(3, 16, 4)
    ready = times["ready"].astype(np.int64).reshape(3, 16, 4)
    for later in (1, 2):
        assert (ready[later] == done[later - 1].max(axis=1)[:, None]).all()


@pytest.mark.parametrize(
    ("traffic", "waiting"),
    [
        ("message: {from: h1, to: h6, bytes: 9000B, count: 3}", 2 * 9),
        ("incast: {to: h1, from: [h6, h7], bytes: 9000B, rounds: 3}", 2 * 36),
        ("mix: {sizes: websearch, load: 10%, stop: 1ms}", 0),
    ],
)
def test_every_kind_of_traffic_is_striped(traffic: str, waiting: int) -> None:
    plain = text("queue_pairs: 1").split("traffic:")[0] + f"traffic: [{{{traffic}}}]"
    one, three = (
        plan(read_run(plain.replace("queue_pairs: 1", f"queue_pairs: {n}"))).messages
        for n in (1, 3)
    )
    whole = three.messages["bytes"].astype(np.int64).reshape(-1, 3).sum(axis=1)
    assert whole.tolist() == one.messages["bytes"].tolist()
    assert int(three.messages["waits"].sum()) == waiting


def test_more_queue_pairs_spread_a_permutation_and_keep_its_order() -> None:
    assert median("queue_pairs: 16") < 0.8 * median("queue_pairs: 1")
    assert int(run("queue_pairs: 16").end.flow_stats["out_of_order"].sum()) == 0
