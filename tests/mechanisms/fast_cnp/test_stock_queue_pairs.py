r"""Stock NICs in a fabric: what leaves are told to report, and which switches hold what follows.

  s3   s4
 /  \ /  \      h1, h2 at s1, h3, h4 at s2
s1        s2
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from scapy.contrib.roce import BTH
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether

import topologies
from controller import CompiledProgram, FabricController, FabricPolicy, TargetFacts, run
from controller.diff import Change, Operation, changes
from controller.digests import DigestMessage
from controller.entries import DigestSetting, Entry, Exact, TableEntry, call, describe, match
from controller.fabric_state import FabricModel, LinkChanged, SwitchReady, Writes, step
from controller.leaf_routes import Routes
from controller.parts import Learned
from mechanisms.fast_cnp.parameters import FastCnp
from mechanisms.fast_cnp.queue_pairs import Ambiguous, SourceIs, Target
from mechanisms.fast_cnp.stock_queue_pairs import (
    DIGEST,
    Sampling,
    StockQueuePairs,
    entry_of,
    sampling_times,
)
from topologies import Topology

POLICY = FabricPolicy({"fast_cnp": {0: FastCnp()}}, stock_nics=frozenset({"h1"}))
H1, H2, H3 = 0x0A000101, 0x0A000102, 0x0A000201
TABLE = "stock_queue_pairs"


@pytest.fixture
def queue_pairs(topology: Topology) -> StockQueuePairs:
    return StockQueuePairs(topology, TargetFacts(), POLICY)


@pytest.fixture
def model(program: CompiledProgram, topology: Topology) -> FabricModel:
    """All switches are up and hold what they should."""
    model = FabricModel(topology, program.p4info, policy=POLICY)
    for switch in topology.switches:
        model, _ = step(model, SwitchReady(switch.name, ()), now=0)
    return model


def told(writes: Writes) -> dict[str, list[str]]:
    return {
        name: [f"{each.operation.value} {describe(each.entry)}" for each in found]
        for name, found in writes.items()
        if found
    }


def held(learned: Learned | None) -> tuple[list[str], list[str]]:
    """Switches that get entries, and that lose some."""
    assert learned is not None
    return sorted(learned.put), sorted(learned.gone)


# ---------------------------------------------------------------- sampling


def test_times_are_the_targets(topology: Topology) -> None:
    """At 400 Gb/s, 10 000 times slower; the longest loop and the queue of 1 MB are in flight."""
    facts = TargetFacts(time_scale=10_000)
    times = sampling_times(topology, facts, POLICY)
    assert times.interval_ns == times.jitter_ns == 1_000_000_000
    assert times.later_ns == 40_000_000_000
    assert times.age_ns == 10_000_000_000_000
    assert times.packets_per_s == -(-400 * 10**9 // (256 * 8 * 10_000))
    assert times.window_packets == 4096
    wide = replace(POLICY, options={"fast_cnp": Sampling(window_packets=50_000)})
    assert sampling_times(topology, facts, wide).window_packets == 50_000


def test_a_long_way_holds_more(topology: Topology) -> None:
    two = topologies.load("two-dc")  # 10 km at 200 Gb/s, hosts at 100 Gb/s, queues of 4 MB
    window = sampling_times(two, TargetFacts(), POLICY).window_packets
    loop_bytes = 2 * 50e-6 * 100e9 / 8
    assert window > (2 * loop_bytes + 4e6) / 1500
    assert window < 1.5 * (2 * loop_bytes + 4e6) / 1500


def test_nothing_is_sampled_faster_than_it_is_heard(topology: Topology) -> None:
    times = sampling_times(topology, TargetFacts(digest_jitter_ns=7_000_000), POLICY)
    assert (times.interval_ns, times.later_ns) == (7_000_000, 7_000_000)


def entries_of(model: FabricModel, switch: str, *tables: str) -> list[str]:
    lines = [describe(entry) for entry in model.installed[switch]]
    return [line for line in lines if line.split()[0] in tables]


def test_leaves_report_what_enters_at_their_hosts(model: FabricModel) -> None:
    tables = ("queue_pair_port", "stock_nics", "digest")
    watch = "sample_host(interval=0xc350, later=0xc350, reports=0x40)"  # 50 ms, in us
    assert entries_of(model, "s1", *tables) == [
        f"digest {DIGEST}: lists of 64 or 25000000 ns",
        f"queue_pair_port port=0x1 source=0xa000101 -> {watch}",
        f"queue_pair_port port=0x2 source=0xa000102 -> {watch}",
        "stock_nics address=0xa000101 -> accept_sender()",
    ]
    assert entries_of(model, "s3", *tables) == []


@pytest.mark.parametrize("changed", [{"stock_nics": frozenset()}, {"settings": {"fast_cnp": {}}}])
def test_nothing_is_sampled_without_need(
    program: CompiledProgram, topology: Topology, changed: dict[str, Any]
) -> None:
    policy = replace(POLICY, **changed)
    model = FabricModel(topology, program.p4info, policy=policy)
    model, _ = step(model, SwitchReady("s1", ()), now=0)
    assert entries_of(model, "s1", "queue_pair_port", "stock_nics", "digest") == []


def test_a_program_without_the_module_is_left_alone(
    program: CompiledProgram, topology: Topology
) -> None:
    message = type(program.p4info.message)()
    message.CopyFrom(program.p4info.message)
    kept = [each for each in message.tables if each.preamble.alias != "queue_pair_port"]
    kept = [each for each in kept if each.preamble.alias != TABLE]
    del message.tables[:]
    message.tables.extend(kept)
    p4info = type(program.p4info)(message)
    model = FabricModel(topology, p4info, policy=POLICY)
    model, _ = step(model, SwitchReady("s1", ()), now=0)
    assert entries_of(model, "s1", "queue_pair_port", "stock_nics", "digest") == []
    entry = entry_of(Target(H3, 9), SourceIs(H1, 7))
    model, writes = step(model, Learned(put={"s1": (entry,)}), now=0)
    assert told(writes) == {}


# ---------------------------------------------------------------- where entries go


def test_switches_on_the_way_hold_the_entry(queue_pairs: StockQueuePairs) -> None:
    assert held(queue_pairs.report(H1, H3, 9, 7)) == (["s1", "s2", "s3", "s4"], [])
    assert held(queue_pairs.report(H1, H2, 9, 7)) == (["s1"], [])  # both at s1
    assert queue_pairs.report(H1, H2, 9, 7) is None  # nothing new
    assert held(queue_pairs.report(H1, H3, 9, None)) == ([], ["s1", "s2", "s3", "s4"])


def test_entries_follow_the_paths(queue_pairs: StockQueuePairs, topology: Topology) -> None:
    queue_pairs.report(H1, H3, 9, 7)
    cut = next(p.link for p in topology.ports_of("s1") if p.peer.node == "s3")
    assert held(queue_pairs.routed(Routes.of(topology, frozenset({cut})), 0)) == ([], ["s3"])
    assert queue_pairs.routed(Routes.of(topology, frozenset({cut})), 0) is None
    assert held(queue_pairs.routed(Routes.of(topology), 0)) == (["s3"], [])


@pytest.mark.parametrize(
    ("answer", "action"),
    [
        (SourceIs(H1, 0x123456), call("set_source_qp", qp=0x123456)),
        (Ambiguous(frozenset({H1})), call("skip_ambiguous_qp")),
    ],
)
def test_an_answer_as_an_entry(
    program: CompiledProgram, answer: SourceIs | Ambiguous, action: object
) -> None:
    entry = entry_of(Target(H3, 9), answer)
    assert entry.action == action
    assert changes([entry], [entry], program.p4info) == ()  # it fits the program


def test_messages_of_other_digests_are_not_ours(queue_pairs: StockQueuePairs) -> None:
    assert queue_pairs.heard([DigestMessage("s1", "learn", {"mac": 1})], now=0) is None
    assert queue_pairs.counts.sightings == 0


# ---------------------------------------------------------------- among all that a switch holds


def key(qp: int) -> dict[str, Any]:
    return match(destination=Exact(H3), qp=Exact(qp))  # type: ignore[return-value]


def source_is(qp: int, source_qp: int) -> TableEntry:
    return entry_of(Target(H3, qp), SourceIs(H1, source_qp))


def test_learned_entries_are_put_changed_and_taken_away(model: FabricModel) -> None:
    line = f"{TABLE} destination=0xa000201 qp=0x9"
    model, writes = step(model, Learned(put={"s1": (source_is(9, 7),)}), now=0)
    assert told(writes) == {"s1": [f"INSERT {line} -> set_source_qp(qp=0x7)"]}
    model, writes = step(model, Learned(put={"s1": (source_is(9, 7),)}), now=0)
    assert told(writes) == {}
    model, writes = step(model, Learned(put={"s1": (source_is(9, 8),)}), now=0)
    assert told(writes) == {"s1": [f"MODIFY {line} -> set_source_qp(qp=0x8)"]}
    model, writes = step(model, Learned(gone={"s1": (source_is(9, 7),), "s2": ()}), now=0)
    assert told(writes) == {"s1": [f"DELETE {line} -> set_source_qp(qp=0x8)"]}
    model, writes = step(model, Learned(gone={"s1": (source_is(9, 8),)}), now=0)
    assert told(writes) == {}


def test_a_switch_that_is_back_gets_what_was_learned(model: FabricModel) -> None:
    model, _ = step(model, Learned(put={"s1": (source_is(9, 7), source_is(10, 8))}), now=0)
    before = model.installed["s1"]
    model, writes = step(model, SwitchReady("s1", ()), now=0)
    inserted = [change.entry for change in writes["s1"]]
    assert {source_is(9, 7), source_is(10, 8)} <= set(inserted)
    there: tuple[Entry, ...] = (*before, source_is(9, 1), source_is(11, 1))
    model, writes = step(model, SwitchReady("s1", there), now=0)
    assert told(writes) == {
        "s1": [
            f"MODIFY {describe(source_is(9, 7))}",
            f"INSERT {describe(source_is(10, 8))}",
            f"DELETE {describe(source_is(11, 1))}",
        ]
    }


def test_a_link_that_goes_down_takes_no_learned_entry_with_it(
    model: FabricModel, topology: Topology
) -> None:
    model, _ = step(model, Learned(put={"s1": (source_is(9, 7),)}), now=0)
    # As after another controller's turn: what was read back has the table's entries too.
    there = (*model.installed["s1"], source_is(9, 7))
    model = replace(model, installed={**model.installed, "s1": there})
    model, writes = step(model, LinkChanged(topology.link_at("s1", 3), up=False), now=0)
    assert writes["s1"] != ()
    assert not [line for line in told(writes)["s1"] if TABLE in line]


# ---------------------------------------------------------------- running switches


def roce_to_h3(qp: int, psn: int) -> bytes:
    ip = IP(src="10.0.1.1", dst="10.0.2.1")
    return bytes(
        Ether(dst="02:00:0a:00:02:01") / ip / UDP(dport=4791) / BTH(opcode=4, dqpn=qp, psn=psn)
    )


def reported(
    destination: int, qp: int, source_qp: int | None
) -> Callable[[StockQueuePairs], Learned | None]:
    """Return a call that makes h1's agent report a queue pair."""
    return lambda learner: learner.report(H1, destination, qp, source_qp)


def test_running_switches_report_and_are_written_to(
    switches: Any,
    topology: Topology,
    program: CompiledProgram,
    wait_for: Callable[[Callable[[], bool]], None],
) -> None:
    """A packet-out enters at the CPU port: an entry of ours makes s1 report it."""
    addresses = switches.start_all(topology)
    policy = replace(POLICY, options={"fast_cnp": Sampling(interval_ps=1, later_ps=1)})
    facts = TargetFacts(digest_jitter_ns=10_000_000)  # BMv2 counts in ms
    watch = call("sample_host", interval=1, later=1, reports=9)
    cpu = TableEntry("queue_pair_port", match(port=Exact(255), source=Exact(H1)), watch)
    heard: list[DigestMessage] = []

    async def scenario() -> None:
        async with FabricController(topology, addresses, program, facts, policy) as controller:
            await controller.bring_up()
            session = controller.sessions["s1"]
            assert DigestSetting(DIGEST, 5_000_000, 64) in await session.read_entries()
            session.on_digest(heard.extend)
            await session.write([Change(Operation.INSERT, cpu)])
            await controller.packet_out("s1", 1, roce_to_h3(0x123456, 0xFFFFFF))
            watched = await controller.ask("fast_cnp", lambda learner: learner)
            assert isinstance(watched, StockQueuePairs)
            async with asyncio.timeout(60):  # for a digest
                while not heard or not watched.counts.sightings:
                    await asyncio.sleep(0.005)
            assert watched.counts.foreign == 1  # h1 isn't at that port
            assert controller.digests_dropped == 0

            await controller.tell("fast_cnp", reported(H3, 9, 7))
            for name in controller.sessions:
                assert source_is(9, 7) in await controller.read_entries(name)
            assert dict(watched.logic.answers()) == {Target(H3, 9): SourceIs(H1, 7)}
            await controller.tell("fast_cnp", reported(H3, 9, None))
            assert source_is(9, 7) not in await controller.read_entries("s1")

            # Somebody else has written to s1: what is said now stands in the end.
            await session.write([Change(Operation.INSERT, source_is(12, 1))])
            await controller.tell("fast_cnp", reported(H3, 12, 2))
            for name in controller.sessions:
                assert source_is(12, 2) in await controller.read_entries(name)

    asyncio.run(scenario())
    assert [each.values for each in heard] == [
        {
            "source": H1,
            "destination": H3,
            "destination_qp": 0x123456,
            "sequence": 0xFFFFFF,
            "kind": 0,
            "length": 0,
            "reports": 1,
            "ingress_port": 255,
        }
    ]


def test_a_switch_that_was_away_has_what_was_learned(
    softswitches: Any, program: CompiledProgram
) -> None:
    topology = topologies.load("single")
    entry = entry_of(Target(H2, 9), SourceIs(H1, 7))
    addresses = softswitches.start_all(topology)
    with run(topology, addresses, program, None, POLICY) as controller:
        softswitches.kill("s1")
        controller.tell("fast_cnp", reported(H2, 9, 7))  # fails for nobody
        softswitches.start("s1", topology.switch("s1").device_id, addresses["s1"])
        controller.restore("s1")
        assert entry in controller.read_entries("s1")
