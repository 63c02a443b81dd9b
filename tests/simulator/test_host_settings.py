"""What a run file says of hosts' cards: clocks, slow receivers, a class for acknowledgements."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from compiler import compile_p4
from controller.program import CompiledProgram
from mechanisms.program import FABRIC
from simulator.core.binding import Clock, EngineError, Receiver
from simulator.host_settings import apply_clocks, slack_bytes
from simulator.prepared import PreparedFabric
from simulator.runner import Outcome, Simulation
from topologies.errors import TopologyError
from workloads.loader import load_run_file, read_run
from workloads.model import CardClocks

RATE = 100_000_000_000
FRAME = 4096 + 54 + 4 + 24  # payload 4096 B on the wire
FRAME_PS = FRAME * 80

RUN = """
topology:
  generator: single
  hosts: 5
  link: {rate: 100Gbps, delay: 500ns, queue: 1MB, mtu: 4200B}
  classes: {roce: {dscp: 26, queue: 3, LOSSLESS}, control: {dscp: 46, queue: 5}}
until: 2ms
EXTRA
traffic:
  - TRAFFIC
"""
INCAST = "incast: {to: h5, senders: 4, persistent: true}"
ONE = "incast: {to: h5, from: h1, persistent: true}"


@cache
def program() -> CompiledProgram:
    return CompiledProgram.of(compile_p4(FABRIC))


def text(extra: str = "", traffic: str = INCAST, *, lossless: bool = False) -> str:
    marked = RUN.replace("LOSSLESS", f"lossless: {str(lossless).lower()}")
    return marked.replace("EXTRA", extra).replace("TRAFFIC", traffic)


def simulation(extra: str = "", traffic: str = INCAST, seed: int = 1, **how: bool) -> Simulation:
    return Simulation(read_run(text(extra, traffic, **how)), program(), seed=seed)


def run(extra: str = "", traffic: str = INCAST, seed: int = 1, **how: bool) -> Outcome:
    return simulation(extra, traffic, seed, **how).run()


def shares(outcome: Outcome) -> list[float]:
    """Goodput of each flow in Gb/s."""
    received = outcome.end.flow_stats["received_bytes"]
    return [float(each) * 8e3 / outcome.end.now_ps for each in received]


def dropped(outcome: Outcome) -> int:
    """Frames that switches lost, for whatever reason."""
    lost = 0
    for switch in outcome.end.switches.values():
        for counts in (switch.stats, *switch.ports.values(), *switch.pfc.values()):
            lost += sum(int(np.sum(n)) for name, n in counts.items() if "drop" in name)
    return lost


# --- clocks ----------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(1, 11))
def test_four_equal_senders_share_a_drop_tail_port(seed: int) -> None:
    found = shares(Simulation(load_run_file("drop-tail"), program(), seed=seed).run())
    assert all(20 <= each <= 30 for each in found)
    assert sum(found) == pytest.approx(98, abs=0.5)


def test_without_clocks_one_sender_has_it_all() -> None:
    found = sorted(shares(run()))
    assert found[-1] > 90
    assert found[0] < 3


def test_the_seed_chooses_the_clocks_and_nothing_else_does() -> None:
    one, again, other = (shares(run("clocks: {}", seed=seed)) for seed in (1, 1, 2))
    assert one == again
    assert one != other


@pytest.mark.parametrize("ppb", [-1_000_000, -50_000, 0, 50_000, 1_000_000])
def test_a_card_sends_by_its_own_clock(ppb: int) -> None:
    made = simulation(traffic=ONE)
    made.engine.set_clock(made.fabric.nodes["h1"], 0, Clock(ppb, 0, 0, 1))
    sent = int(made.run().end.flow_stats[0]["sent_packets"])
    slots = 2_000_000_000 * (1 + ppb * 1e-9) / FRAME_PS
    assert sent == pytest.approx(slots, abs=1.01)


def test_a_flow_with_a_rate_is_paced_by_the_cards_clock_with_and_without_a_transport() -> None:
    traffic = "message: {from: h1, to: h5, bytes: 64MB, rate: 10Gbps}"
    for extra in ("", "transport: {congestion_control: none}"):
        made = simulation(extra, traffic)
        made.engine.set_clock(made.fabric.nodes["h1"], 0, Clock(1_000_000, 0, 0, 1))
        if extra:  # cards are made with their flows: the clock of one that is there is changed
            assert made.traffic.transports
        stats = made.run().end.flow_stats[0]
        headers = 0 if not extra else 16  # the first packet of a WRITE has a RETH
        slots = (2e9 * 1.001 - headers * 800) / (10 * FRAME_PS)
        assert int(stats["sent_packets"]) == pytest.approx(slots, abs=1.5)


def test_a_phase_is_the_same_for_all_frames() -> None:
    made = simulation(traffic=ONE)
    made.engine.set_clock(made.fabric.nodes["h1"], 0, Clock(0, 12_345, 0, 1))
    late, plain = made.run().end.flow_stats[0], run(traffic=ONE).end.flow_stats[0]
    assert int(late["first_received"]) - int(plain["first_received"]) == 12_345
    assert int(late["last_sent"]) == int(plain["last_sent"])


def test_a_jitter_never_changes_the_order_and_costs_no_rate() -> None:
    half = ONE.replace("persistent: true", "persistent: true, rate: 50Gbps")
    outcome = run("clocks: {ppm: 0, jitter: 300ns}", half)
    stats = outcome.end.flow_stats[0]
    assert int(stats["out_of_order"]) == 0
    assert int(stats["sent_packets"]) == pytest.approx(1e9 / FRAME_PS, abs=1.01)
    spread = int(stats["delay_max_ps"]) - int(stats["delay_sum_ps"]) / int(stats["timed_packets"])
    assert spread == pytest.approx(150_000, rel=0.1)  # evenly from 0 to 300 ns


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_headroom_by_the_formula_covers_clocks(seed: int) -> None:
    extra = "clocks: {ppm: 1000, jitter: 2us}\nbuffer: {shared: 100kB, alpha: 8}"
    outcome = run(extra, seed=seed, lossless=True)
    assert outcome.end.totals["lost_link"] == 0
    assert dropped(outcome) == 0
    assert sum(shares(outcome)) == pytest.approx(98, abs=1)


def test_a_jitter_longer_than_a_frame_keeps_the_order_too() -> None:
    stats = run("clocks: {ppm: 0, jitter: 50us}").end.flow_stats
    assert stats["out_of_order"].tolist() == [0] * len(stats)


def test_slack_is_phase_jitter_and_offset() -> None:
    topology = read_run(text()).topology
    link = topology.link_at("h1", 0)
    frame = 4200 + 14 + 24
    plain = slack_bytes(topology, link, CardClocks(0, 0))
    assert plain == frame
    assert slack_bytes(topology, link, CardClocks(0, 80_000)) == frame + 1000
    faster = slack_bytes(topology, link, CardClocks(1_000_000, 0))
    assert faster == frame + -(-(1_000_000 + frame * 80) // 80_000)


def test_the_time_scale_slows_clocks_with_all_else() -> None:
    plain = Simulation(read_run(text("clocks: {}")), program())
    slow = Simulation(read_run(text("clocks: {}")), program(), time_scale=100, until_ps=200 * 10**9)
    first, second = (int(each.run().end.flow_stats[0]["first_received"]) for each in (plain, slow))
    assert second == pytest.approx(100 * first, rel=1e-6)


def test_a_clock_that_is_out_of_range_is_refused() -> None:
    made = simulation()
    with pytest.raises(EngineError, match="at most 1000 ppm"):
        made.engine.set_clock(made.fabric.nodes["h1"], 0, Clock(1_000_001, 0, 0, 1))
    with pytest.raises(EngineError, match="no interface 7"):
        made.engine.set_clock(made.fabric.nodes["h1"], 7, Clock(0, 0, 0, 1))


# --- slow receivers --------------------------------------------------------------------------

SLOW = "buffer: {shared: 8MB}\nreceivers: {h5: {rate: 40Gbps, buffer: 200kB}}"


@pytest.mark.parametrize("traffic", [ONE, INCAST])
def test_a_slow_host_pauses_and_loses_nothing(traffic: str) -> None:
    outcome = run(SLOW, traffic, lossless=True)
    found = outcome.end.receivers["h5"]
    assert found["dropped"] == 0
    assert 0 < found["resumes"] <= found["pauses"]
    assert 200_000 < found["most_bytes"] < 200_000 + 30_000
    assert found["taken"] == pytest.approx(2e9 * 0.4 / FRAME_PS, rel=0.005)
    assert sum(shares(outcome)) == pytest.approx(0.4 * 98, rel=0.005)
    assert dropped(outcome) == 0


def test_without_lossless_classes_a_slow_host_loses_frames() -> None:
    outcome = run(SLOW, lossless=False)
    assert dropped(outcome) > 0  # four senders into one port, too
    found = outcome.end.receivers["h5"]
    assert found["pauses"] == 0
    assert found["dropped"] > 1000
    assert found["most_bytes"] <= 200_000


def test_what_waits_is_acknowledged_when_it_is_taken() -> None:
    transport = "transport: {congestion_control: none, window: 16}"
    message = "message: {from: h1, to: h5, bytes: 64kB}"
    fast = run(transport, message)
    slow = run(f"{transport}\nreceivers: {{h5: {{rate: 1Gbps}}}}", message)
    took = [int(each.end.message_times["done"][0]) for each in (fast, slow)]
    assert took[0] < 10_000_000
    assert took[1] == pytest.approx(65 * FRAME_PS * 100 * 64000 / (65 * 4096), rel=0.05)


def test_a_receiver_with_impossible_thresholds_is_refused() -> None:
    made = simulation()
    node = made.fabric.nodes["h1"]
    with pytest.raises(EngineError, match="xon <= xoff <= buffer"):
        made.engine.set_receiver(node, 0, Receiver(RATE, 1000, 2000, 0, 0))
    made.engine.set_receiver(node, 0, Receiver(RATE, 1000, 500, 0, 0))
    with pytest.raises(EngineError, match="has a receiver"):
        made.engine.set_receiver(node, 0, Receiver(RATE, 1000, 500, 0, 0))
    with pytest.raises(EngineError):
        made.engine.receiver_stats(made.fabric.nodes["h2"], 0)


# --- a class for acknowledgements ------------------------------------------------------------


def acknowledgements(extra: str) -> set[int]:
    """Return the DSCPs of what h5 sends back."""
    made = simulation(extra, "message: {from: h1, to: h5, bytes: 1MB}")
    made.engine.tap(made.fabric.nodes["h5"], 0)
    made.run()
    rows = [row for row in made.engine.take_tapped() if row.sent]
    assert rows
    return {row.data[15] >> 2 for row in rows}


def test_acknowledgements_go_in_the_class_that_is_said() -> None:
    assert acknowledgements("transport: {congestion_control: none}") == {26}
    extra = "transport: {congestion_control: none, ack_class: control}"
    assert acknowledgements(extra) == {46}


def test_acknowledgements_of_their_own_class_pass_the_data_on_the_way_back() -> None:
    both = f"{ONE}\n  - incast: {{to: h1, from: [h2, h3], persistent: true, transport: none}}"
    message = f"message: {{from: h1, to: h5, bytes: 2MB}}\n  - {both.splitlines()[1][4:]}"
    done = [
        int(
            run(f"transport: {{congestion_control: none{own}}}", message).end.message_times["done"][
                0
            ]
        )
        for own in ("", ", ack_class: control")
    ]
    assert 0 < done[1] < 250_000_000


@pytest.mark.parametrize(
    ("extra", "traffic", "said"),
    [
        ("receivers: {h9: {rate: 1Gbps}}", INCAST, "no host 'h9'"),
        ("receivers: {h5: {}}", INCAST, "receivers.h5.rate"),
        ("receivers: {h5: {rate: 0bps}}", INCAST, "receivers.h5.rate"),
        ("clocks: {ppm: 2000}", INCAST, "clocks.ppm"),
        ("clocks: {drift: 1}", INCAST, "unknown key 'drift'"),
        ("transport: {ack_class: contrl}", INCAST, "did you mean 'control'"),
        ("transport: {ack_class: control, operation: read}", INCAST, "READs have no"),
        (
            "transport: {ack_class: control}",
            "message: {from: h1, to: h2, bytes: 1kB, operation: read}",
            "READs have no",
        ),
    ],
)
def test_what_can_not_be_is_said_once(extra: str, traffic: str, said: str) -> None:
    with pytest.raises(TopologyError) as caught:
        read_run(text(extra, traffic))
    assert said in str(caught.value)


def test_every_interface_has_a_clock_of_its_own() -> None:
    source = text("clocks: {}").replace(
        "generator: single\n  hosts: 5",
        "generator: dual_plane\n  spines: 1\n  leaves: 2\n  hosts_per_leaf: 2",
    )
    made = Simulation(
        read_run(source.replace(INCAST, "message: {from: h1, to: h2, bytes: 1kB}")), program()
    )
    seen: list[Clock] = []
    made.engine.set_clock = lambda node, port, clock: seen.append(clock)  # type: ignore[method-assign]
    apply_clocks(made.fabric, CardClocks(), 1)
    assert len({each.ppb for each in seen}) > 4
    assert len({each.seed for each in seen}) == len(seen) == 8
    assert all(-50_000 <= each.ppb <= 50_000 for each in seen)


def test_a_fabric_prepared_for_one_seed_gives_anothers_clocks() -> None:
    loaded = read_run(text("clocks: {}\nbuffer: {shared: 1MB}", lossless=True))
    prepared = PreparedFabric(loaded, program(), seed=1)
    shared = Simulation(loaded, program(), seed=2, prepared=prepared).run()
    fresh, other = (Simulation(loaded, program(), seed=seed).run() for seed in (2, 1))
    assert shares(shared) == shares(fresh) != shares(other)
    without = read_run(text("buffer: {shared: 1MB}", lossless=True))
    with pytest.raises(ValueError, match="not prepared"):
        Simulation(without, program(), prepared=PreparedFabric(loaded, program()))
