"""Each policy in a running fabric, in virtual time: what goes by which port, and in what order.

h1 .. h8 -- s1 -- s3, s4, s5, s6 -- s2 -- h9 .. h16      four spines, links of 100 Gb/s
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest

import topologies
from compiler import compile_p4
from controller.program import CompiledProgram
from mechanisms import registry
from mechanisms.dlb.counters import DLB
from mechanisms.dlb.mechanism import MECHANISM
from mechanisms.dlb.settings import Policy
from mechanisms.program import FABRIC
from simulator.runner import Simulation
from topologies.lint.findings import Severity
from workloads.loader import read_run

UPLINKS = range(9, 13)
TWO_TIERS = "generator: leaf_spine\n  leaves: 2\n  spines: 4\n  hosts_per_leaf: 8"
FAT_TREE = "generator: fat_tree\n  k: {k}"
RUN = """\
topology:
  {shape}
  link: {{rate: 100Gbps, delay: {delay}, queue: 8MB, mtu: 4200B}}
  classes:
    roce: {{dscp: 26, queue: 3{balancing}}}
  {more}
until: {until}us
events: [{events}]
traffic:
{traffic}
"""


@dataclass(frozen=True)
class Ran:
    """Counts of s1 by port, and of flows: packets lost and out of order, and when each was done."""

    ports: Mapping[int, Mapping[str, int]]
    counts: Mapping[str, Mapping[str, int]]
    lost: int
    out_of_order: int
    done_us: np.ndarray

    def chosen(self, ports: Sequence[int] = UPLINKS) -> list[int]:
        return [self.ports[port]["chosen"] for port in ports]


def message(source: int, to: int, packets: int = 100, **more: str | int) -> str:
    said = {"bytes": f"{4096 * packets}B", "payload": "4096B", "dscp": 26, **more}
    text = ", ".join(f"{key}: {value}" for key, value in said.items())
    return f"  - message: {{from: h{source}, to: h{to}, {text}}}"


@cache
def program(defines: tuple[str, ...]) -> CompiledProgram:
    """Compile each only once."""
    return CompiledProgram.of(compile_p4(FABRIC, defines=defines))


def counted(
    simulation: Simulation, *, switch: str = "s1", ports: Sequence[int] = range(1, 13)
) -> dict[int, dict[str, int]]:
    """Return what a switch counted, by port."""
    device = simulation.fabric.switches[switch].device
    assert device.pipeline is not None
    number = simulation.control.program.p4info.counters[DLB.name].id
    index = device.pipeline.schema.counters[number].index
    return {
        port: {
            label: device.core.counter_get(index, cell).packets
            for cell, label in DLB.cells(port).items()
        }
        for port in ports
    }


def ran(
    policy: str | None,
    traffic: Sequence[str],
    *,
    shape: str = TWO_TIERS,
    delay: str = "500ns",
    more: str = "",
    events: str = "",
    until_us: int = 2000,
    seed: int = 1,
) -> Ran:
    balancing = f", load_balancing: {policy}" if policy else ""
    text = RUN.format(
        shape=shape, delay=delay, balancing=balancing, more=more, until=until_us, events=events,
        traffic="\n".join(traffic),
    )  # fmt: skip
    run = read_run(text)
    simulation = Simulation(run, program(registry.defines(run.topology)), seed=seed)
    end = simulation.run().end
    flows = end.flow_stats
    missing = flows["sent_packets"].astype(np.int64) - flows["received_packets"].astype(np.int64)
    return Ran(
        counted(simulation) if policy else {},
        end.counters,
        int(missing.sum()),
        int(flows["out_of_order"].sum()),
        flows["last_received"] / 1e6,
    )


def permutation(hosts: int, seed: int, packets: int = 489) -> list[str]:
    """Every host sends to another one, and each receives from one."""
    draw = np.random.default_rng(seed)
    order = draw.permutation(hosts)
    while any(order == np.arange(hosts)):
        order = draw.permutation(hosts)
    return [
        message(n + 1, int(to) + 1, packets, udp_port=49152 + int(draw.integers(16000)))
        for n, to in enumerate(order)
    ]


def test_turns_are_taken() -> None:
    found = ran("round-robin", [message(1, 9, 400)])
    assert found.chosen() == [100, 100, 100, 100]
    assert found.lost == 0


def test_spraying_is_even_and_in_no_order() -> None:
    found = ran("spray", [message(1, 9, 4000)])
    assert all(abs(count - 1000) < 5 * 28 for count in found.chosen())  # sigma: 27.4
    assert len(set(found.chosen())) > 1


UNEQUAL = """overrides:
  - {between: [s1, s3], rate: 25Gbps}
  - {between: [s1, s4], rate: 50Gbps}"""
"""Of 1, 2, 4 and 4 elevenths."""


@pytest.mark.parametrize(
    ("policy", "traffic"),
    [
        ("spray", [message(1, 9, 4400, rate="20Gbps")]),
        ("flowlet", [message(n, 8 + n, 1, count=550, gap="30us") for n in range(1, 9)]),
        ("ecmp-qp", [message(1, 9, 11, udp_port=50000, start=f"{n}us") for n in range(400)]),
    ],
)
def test_weights_are_the_rates_of_links(policy: str, traffic: list[str]) -> None:
    said = f"{{policy: {policy}, weights: auto}}"
    found = ran(said, traffic, more=UNEQUAL, until_us=30_000)
    assert sum(found.chosen()) == 4400
    sigma = 32 * 11**0.5 if policy == "ecmp-qp" else 32
    for count, share in zip(found.chosen(), (1, 2, 4, 4), strict=True):
        assert abs(count - share * 400) < 4 * sigma


def test_weights_of_equal_links_change_nothing() -> None:
    weighted = ran("{policy: spray, weights: auto}", [message(1, 9, 400)])
    assert weighted.chosen() == ran("spray", [message(1, 9, 400)]).chosen()


def test_a_link_that_is_down_has_no_weight() -> None:
    """The controller takes it out of the group, and shares are of those that are left."""
    late = [message(1, 9, 1000, start="20ms", rate="20Gbps")]
    event = "{at: 0us, link: s1-s5, do: down}"
    found = ran("{policy: spray, weights: auto}", late, more=UNEQUAL, events=event, until_us=30_000)
    assert found.chosen()[2] == 0 == found.lost
    for count, share in zip(found.chosen(), (1, 2, 0, 4), strict=True):
        assert abs(count - share * 1000 / 7) < 4 * 16


def test_queue_pairs_are_told_apart_by_their_hash() -> None:
    """One UDP port: ECMP takes one path for all."""
    pairs = [message(1, 9, 20, udp_port=50000, start=f"{10 * n}us") for n in range(64)]
    by_pair = ran("ecmp-qp", pairs)
    assert min(by_pair.chosen()) > 0
    assert sum(by_pair.chosen()) == 64 * 20
    assert all(count % 20 == 0 for count in by_pair.chosen())


def test_a_flowlet_stays_on_its_path_and_the_next_may_leave_it() -> None:
    near = [message(1, 9, 100, rate="10Gbps")]  # 3.3 us apart
    assert sorted(ran("{policy: flowlet, gap: 5us}", near).chosen()) == [0, 0, 0, 1]
    apart = ran("{policy: flowlet, gap: 3us}", near)
    assert sum(apart.chosen()) == 100
    assert min(apart.chosen()) > 0


@pytest.mark.parametrize("policy", ["flowlet", "flowlet-dlb"])
def test_nothing_is_reordered_where_gaps_exceed_the_difference_of_delays(policy: str) -> None:
    """Bursts at 100 Gb/s from eight hosts queue at most 8 x 20 packets: 54 us at one port."""
    bursts = [
        message(host, 8 + host, 20, count=10, gap="100us", start=f"{host}us", udp_port=50000 + host)
        for host in range(1, 9)
    ]
    found = ran(f"{{policy: {policy}, gap: 60us}}", bursts)
    assert found.out_of_order == found.lost == 0
    moved = sum(port.get("moved", 0) for port in found.ports.values())
    assert moved > 10


def test_packets_avoid_the_busier_port() -> None:
    """Two hosts' fast flows by ECMP's choice of one class make ports busy that others leave."""
    flows = [message(host, 8 + host, 489, udp_port=50000 + host) for host in range(1, 5)]
    found = ran("packet-dlb", flows)
    assert max(found.chosen()) < 1.1 * min(found.chosen())
    assert found.done_us.max() < 1.1 * 489 * 4178 * 8 / 100e3


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_permutation_takes_less_time_by_packets_than_by_the_hash(seed: int) -> None:
    """Non-blocking, 128 hosts: 164 us is a flow alone on its way."""
    traffic = permutation(128, seed)
    shape = FAT_TREE.format(k=8)
    by_hash = ran(None, traffic, shape=shape, seed=seed)
    spread = ran("spray", traffic, shape=shape, seed=seed)
    balanced = ran("packet-dlb", traffic, shape=shape, seed=seed)
    assert balanced.lost == spread.lost == 0
    assert by_hash.done_us.max() > 2.5 * balanced.done_us.max()
    assert balanced.done_us.max() <= 1.02 * spread.done_us.max()
    assert balanced.done_us.max() < 1.2 * 164


def test_a_dead_link_overrides_every_policy() -> None:
    """DPFR knows within 42 us; nobody else does: the controller's time is 1 s."""
    event = "{at: 100us, link: s1-s3, loss: 100%}"
    late = [message(host, 8 + host, 100, start="200us") for host in range(1, 9)]
    for policy in Policy:
        found = ran(policy.word, late, more="dpfr: true", events=event)
        assert found.lost == 0, policy
        assert found.counts["dpfr"]["went_down"] == 2, policy


def test_without_dpfr_a_dead_port_goes_on_being_chosen() -> None:
    """Groups watch their ports, estimates do not; DPFR, where it is on, masks the port for both."""
    event = "{at: 100us, link: s1-s3, do: down}"
    late = [message(host, 8 + host, 100, start="200us") for host in range(1, 9)]
    assert ran(None, late, events=event).lost == 0
    assert ran("packet-dlb", late, events=event).lost > 100
    assert ran("packet-dlb", late, more="dpfr: true", events=event).lost == 0


def test_a_class_without_a_policy_is_spread_by_the_hash() -> None:
    other = [message(1, 9, 100, dscp=0)]
    found = ran("spray", other)
    assert sum(found.chosen()) == 0
    assert found.lost == 0


def test_a_switch_with_more_links_than_it_serves_takes_the_hash() -> None:
    shape = "generator: leaf_spine\n  leaves: 65\n  spines: 2\n  hosts_per_leaf: 1"
    text = RUN.format(
        shape=shape, delay="500ns", balancing=", load_balancing: packet-dlb", more="", until=200,
        events="", traffic=message(1, 65, 64),
    )  # fmt: skip
    run = read_run(text)
    simulation = Simulation(run, program(registry.defines(run.topology)))
    end = simulation.run().end
    assert int(end.flow_stats["received_packets"].sum()) == 64
    assert (
        min(counted(simulation, switch="s1", ports=(2, 3))[port]["chosen"] for port in (2, 3)) > 8
    )
    spine = counted(simulation, switch="s66", ports=range(1, 66))
    assert {count["chosen"] for count in spine.values()} == {0}


def test_more_links_than_a_switch_serves_are_remarked() -> None:
    shape = "generator: leaf_spine\nleaves: {leaves}\nspines: 2\nhosts_per_leaf: 1"
    text = f"time_scale: 1\n{shape}\nlink: {{{{rate: 1Gbps, delay: 1us, queue: 1MB}}}}\n"
    text += "classes: {{roce: {{dscp: 26, queue: 3, load_balancing: spray}}}}\n"
    for leaves, found in ((64, []), (65, [Severity.WARNING])):
        remarks = list(MECHANISM.remarks(topologies.loads(text.format(leaves=leaves))))
        assert [remark.severity for remark in remarks] == found
