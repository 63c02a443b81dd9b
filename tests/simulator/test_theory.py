"""The simulator against formulas: M/D/1, max-min shares, a long link, lossless incast."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import cache
from pathlib import Path

import pytest

from compiler import compile_p4
from controller.program import CompiledProgram
from simulator.runner import Outcome, Simulation
from workloads.loader import load_run_file, read_run

FABRIC = Path(__file__).parents[2] / "p4src" / "fabric.p4"
ROCE = 3
MTU_FRAME = 4096 + 54 + 4  # payload, Ethernet to BTH, ICRC
ON_WIRE = MTU_FRAME + 24  # preamble, FCS and gap
GBPS = 10**9


@cache
def program() -> CompiledProgram:
    result = compile_p4(FABRIC)
    return CompiledProgram.of(result)


def simulation(text: str) -> Simulation:
    return Simulation(read_run(text), program())


# --- queueing ------------------------------------------------------------------------------------

MD1 = """
topology:
  generator: single
  hosts: 33
  link: {{rate: 1Tbps, delay: 100ns, queue: 1GB, mtu: 4200B}}
  overrides: [{{between: [h1, s1], rate: 100Gbps}}]
until: {until}ns
sample: 1ms
traffic:
  - poisson: {{from: [{senders}], to: h1, rate: {rate}bps}}
"""


@pytest.mark.parametrize(
    ("load", "packets"), [("0.5", 300_000), ("0.8", 1_000_000), ("0.9", 2_500_000)]
)
def test_mean_queue_is_that_of_m_d_1(load: str, packets: int) -> None:
    """Pollaczek-Khinchine with a constant service time: L_q = rho^2 / (2 (1 - rho)).

    32 senders with links of ten times the port's rate are Poisson as good as one.
    """
    rho = Fraction(load)
    service_ns = Fraction(8 * ON_WIRE * 10**9, 100 * GBPS)
    until = int(packets * service_ns / rho)
    run = simulation(
        MD1.format(
            until=until,
            senders=", ".join(f"h{n}" for n in range(2, 34)),
            rate=int(rho * 100 * GBPS / 32),
        )
    )
    outcome = run.run()
    port = outcome.end.switches["s1"].ports[1]
    assert port["tx_packets"] == pytest.approx(packets, rel=0.01)
    measured = port["wait_ps"] / outcome.end.now_ps
    assert measured == pytest.approx(float(rho**2 / (2 * (1 - rho))), rel=0.03)


# --- shares --------------------------------------------------------------------------------------

SHARES = """
topology:
  generator: single
  hosts: 5
  link: {{rate: 100Gbps, delay: 100ns, queue: 1MB, mtu: 4200B}}
  classes: {{{classes}}}
until: 2ms
traffic:
{traffic}
"""


def max_min(capacity: Fraction, demands: Sequence[int], weights: Sequence[int]) -> list[Fraction]:
    """Weighted max-min shares by water filling (Bertsekas and Gallager, Data Networks, 6.5)."""
    shares = [Fraction(0)] * len(demands)
    open_ = set(range(len(demands)))
    while open_ and capacity > 0:
        level = capacity / sum(weights[i] for i in open_)
        met = {i for i in open_ if demands[i] <= level * weights[i]}
        for i in met or open_:
            shares[i] = Fraction(demands[i]) if met else level * weights[i]
        capacity -= sum(shares[i] for i in met or open_)
        open_ -= met or open_
    return shares


@pytest.mark.parametrize(
    ("demands", "weights"),
    [
        ((100, 100, 100, 100), (1, 1, 1, 1)),
        ((10, 100, 100, 100), (1, 1, 1, 1)),
        ((10, 20, 100, 100), (1, 1, 1, 1)),
        ((100, 100, 100, 100), (1, 2, 3, 4)),
        ((5, 100, 20, 100), (1, 2, 3, 4)),
        ((10, 20, 30, 20), (1, 1, 1, 1)),
    ],
)
def test_classes_get_their_max_min_shares(
    demands: tuple[int, ...], weights: tuple[int, ...]
) -> None:
    classes = ", ".join(
        f"c{i}: {{dscp: {8 * i + 8}, queue: {i}, weight: {weight}}}"
        for i, weight in enumerate(weights)
    )
    traffic = "\n".join(
        f"  - cbr: {{from: h{i + 2}, to: h1, rate: {demand}Gbps, dscp: {8 * i + 8}}}"
        for i, demand in enumerate(demands)
    )
    run = simulation(SHARES.format(classes=classes, traffic=traffic))
    outcome = run.run()
    seconds = Fraction(outcome.end.now_ps, 10**12)
    got = [
        float(int(stats["received_packets"]) * ON_WIRE * 8 / seconds / GBPS)
        for stats in outcome.end.flow_stats
    ]
    wanted = [float(share) for share in max_min(Fraction(100), demands, weights)]
    assert got == pytest.approx(wanted, rel=0.02)


# --- lossless ------------------------------------------------------------------------------------

LONG = """
topology:
  switches: [s1, s2]
  hosts: [h1, h2]
  link: {rate: 400Gbps, delay: 100ns, queue: 1MB, mtu: 4200B}
  links:
    - {a: h1, b: s1:1}
    - {a: h2, b: s2:1, rate: 100Gbps}
    - {a: s1:2, b: s2:2, length: 100km}
  classes: {roce: {dscp: 26, queue: 3, lossless: true}}
until: 5ms
buffer: {shared: 16MB, alpha: 1, headroom: formula}
traffic:
  - message: {from: h1, to: h2, bytes: 500MB}
"""


def test_a_long_link_holds_its_round_trip() -> None:
    """What reaches the congested port after it says stop: 2 x 500 us x 400 Gb/s = 50 MB."""
    run = simulation(LONG)
    congested = run.fabric.switches["s2"].device.core
    seen: list[int] = []

    def on_wire() -> int:
        stats = congested.port_stats(2)
        return stats.rx_bytes + 24 * stats.rx_packets

    while not congested.pfc_stats(2).xoff_sent[ROCE]:
        run.engine.run(budget=1)
        seen.append(on_wire())
    after = run.engine.now + 2 * 500_000_000
    at_stop = on_wire()
    run.engine.run(after + 1_000_000)
    reached = on_wire() - at_stop
    assert abs(reached - 50_000_000) <= 2 * ON_WIRE
    run.engine.run(after + 100_000_000)
    assert on_wire() - at_stop == reached  # it has stopped indeed


def lost(outcome: Outcome) -> int:
    ports = [row for switch in outcome.end.switches.values() for row in switch.ports.values()]
    pfc = [row for switch in outcome.end.switches.values() for row in switch.pfc.values()]
    dropped = sum(row["drop_queue"] + row["drop_down"] for row in ports)
    names = ("drop_headroom", "drop_shared", "watchdog_drops")
    return dropped + sum(sum(row[name]) for row in pfc for name in names)  # type: ignore[arg-type]


def test_persistent_incast_loses_nothing_with_headroom_by_the_formula() -> None:
    outcome = Simulation(load_run_file("incast-32"), program()).run()
    stats = outcome.end.flow_stats
    assert lost(outcome) == 0
    assert outcome.end.now_ps == 20_000_000_000
    # The port to the receiver never idles: 100 Gb/s less what came before the first packet.
    received = int(stats["received_packets"].sum()) * ON_WIRE * 8
    assert received / (100 * GBPS * 0.02) > 0.999
    assert int(stats["paused_ps"].min()) > 0


def test_without_headroom_the_same_incast_loses() -> None:
    path = Path(load_run_file("incast-32").file)
    text = path.read_text().replace("headroom: formula", "headroom: none")
    outcome = simulation(text.replace("until: 20ms", "until: 2ms")).run()
    assert lost(outcome) > 100
