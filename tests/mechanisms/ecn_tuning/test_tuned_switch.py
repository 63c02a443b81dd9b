"""The switch's part: what it reports of a queue, held against a queue that Python counts.

h1 (10.0.1.1) -- 1 s1 2 -- h2        frames go from h2 to h1 at times that a test says
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cache

import pytest
from scapy.contrib.roce import BTH
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import ARP, Ether
from scapy.packet import Packet, Raw

import topologies
from compiler import CompileResult, compile_p4
from controller.diff import changes
from controller.digests import DigestMessage, digest_messages
from controller.entries import ActionCall, Entry, Exact, TableEntry, call, match
from controller.fabric_state import FabricModel, desired_entries
from controller.p4info import P4Info
from controller.parts import LearnedEntry
from controller.policy import FabricPolicy
from controller.program import CompiledProgram
from controller.target_facts import TargetFacts
from mechanisms.ecn_tuning.entries import DIGEST, QUEUE_TABLE, threshold_entry
from mechanisms.ecn_tuning.formula import CELLS, Measured, flows_of, thresholds
from mechanisms.ecn_tuning.learner import EcnTuner
from mechanisms.ecn_tuning.queues import TunedQueue, queues_of
from mechanisms.program import FABRIC
from mechanisms.registry import defines
from protocols.rocev2 import Opcode
from softswitch import Switch
from softswitch.codegen.build import build_c
from softswitch.codegen.generate import generate_c
from softswitch.core import CoreConfig
from softswitch.p4runtime import pipeline
from topologies.ecn import EcnThresholds
from topologies.model import Topology
from workloads.randomness import Random

US = 1000
INTERVAL = 50 * US
ON_LINE = 24
FACTS = TargetFacts(tick_ps=1000, depth_cell_bytes=256, priorities=8)


@cache
def topology() -> Topology:
    return topologies.loads(
        """
generator: single
time_scale: 1
hosts: 2
link: {rate: 100Gbps, delay: 1us, queue: 2MB, mtu: 4200B}
classes:
  roce: {dscp: 26, queue: 3, ecn: 400kB, ecn_tuning: {interval: 50us}}
  rest: {queue: 0}
""",
        name="one switch",
    )


@cache
def compiled() -> CompileResult:
    return compile_p4(FABRIC, defines=defines(topology()))


@cache
def info() -> P4Info:
    return CompiledProgram.of(compiled()).p4info


@pytest.fixture
def switch() -> Iterator[Switch]:
    """Yield the switch with what the controller installs before anything was reported."""
    config = CoreConfig(cpu_port=255, priorities=8, tick_ps=1000, depth_cell_bytes=256)
    model = FabricModel(topology(), info(), FACTS, FabricPolicy.of(topology()))
    json = compiled().json_text.encode()
    with Switch.from_json(json, compiled().p4info, config=config) as made:
        write(made, *desired_entries(model, "s1"))
        yield made


def write(switch: Switch, *entries: Entry) -> None:
    switch.write([each.encode(info()) for each in changes(entries, (), info())])


def frame(flow: int, size: int = 1000, ecn: int = 2) -> Packet:
    here, there = topology().host("h2"), topology().host("h1")
    ip = IP(src=str(here.address.ip), dst=str(there.address.ip), tos=26 << 2 | ecn)
    packet = Ether(src=here.mac, dst=topology().switch("s1").mac) / ip
    packet = packet / UDP(sport=50001, dport=4791) / BTH(opcode=Opcode.SEND_ONLY, dqpn=flow)
    return packet / Raw(bytes(size - len(packet)))


def reports(switch: Switch) -> list[Mapping[str, int]]:
    switch.run_until(switch.now_ns + INTERVAL)
    lists = [each for each in switch.digests if each.name == DIGEST]
    switch.digests.clear()
    found = [m for each in lists for m in digest_messages("s1", each.message, info())]
    assert all((m.values["port"], m.values["class_of_service"]) == (1, 3) for m in found)
    return [m.values for m in found]


def send(switch: Switch, frames: Iterable[tuple[int, int, int]]) -> None:
    """Frames as (ns, flow, bytes)."""
    for at, flow, size in frames:
        switch.inject(2, bytes(frame(flow, size)), at_ns=at)
        switch.run_until(at)


def by_hand(frames: Iterable[tuple[int, int, int]]) -> list[tuple[int, int, float, int]]:
    """Return the expected reports: ns, bytes, rise in ns, flows; of each interval that has
    ended.
    """
    found: list[tuple[int, int, float, int]] = []
    since, free, least, rise, total = -1, 0.0, 0.0, 0.0, 0
    flows: set[int] = set()
    for at, flow, size in frames:
        ahead = max(free - at, 0.0)
        if since < 0:
            since, least = at, ahead
        least = min(least, ahead)
        if at - since >= INTERVAL:
            found.append((at - since, total, rise, len(flows)))
            since, least, rise, total, flows = at, ahead, 0.0, 0, set()
        ahead += (size + ON_LINE) * 0.08
        rise, free = max(rise, ahead - least), at + ahead
        total += size
        flows.add(flow)
    return found


def random_frames(seed: int, count: int) -> list[tuple[int, int, int]]:
    random, at, found = Random(seed, "frames"), 1000, []
    for _ in range(count):
        at += random.below(40) if random.below(4) else random.below(4000)
        found.append((at, 1 + random.below(20), 100 + random.below(1000)))
    return found


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_reports_are_those_of_a_queue_that_is_counted_by_hand(switch: Switch, seed: int) -> None:
    frames = random_frames(seed, 400)
    send(switch, frames)
    got, wanted = reports(switch), by_hand(frames)
    assert len(got) == len(wanted) >= 3
    for values, (ticks, total, rise, flows) in zip(got, wanted, strict=True):
        assert (values["ticks"], values["bytes"]) == (ticks, total)
        assert values["rise"] == pytest.approx(rise, abs=2, rel=0.001)
        assert flows_of(values["cells"]) == pytest.approx(flows, abs=2)


def test_a_burst_counts_by_what_it_adds_to_what_stands(switch: Switch) -> None:
    """Back to back for 20 us, then ten frames at once: the burst is ten frames, not the rest."""
    steady = [(1000 + 82 * n, 1, 1000) for n in range(250)]
    burst = [(steady[-1][0], 2 + n, 1000) for n in range(10)]
    send(switch, [*steady, *burst, (60 * US, 1, 100)])
    (values,) = reports(switch)
    assert values["rise"] == pytest.approx(11 * 1024 * 0.08, abs=6)


def test_queue_pairs_that_follow_each_other_are_in_cells_of_their_own(switch: Switch) -> None:
    """64 flows take about 57 of 256 cells if drawn evenly; a plain CRC took 33 of such."""
    send(switch, [*((1000 + n, 0x100 + n, 100) for n in range(64)), (60 * US, 1, 100)])
    (values,) = reports(switch)
    assert 50 <= values["cells"] <= 64 < CELLS


def test_nothing_is_said_of_a_queue_to_which_nothing_comes(switch: Switch) -> None:
    send(switch, [(1000, 1, 100), (2000, 2, 100)])
    switch.run_until(100 * INTERVAL)
    assert reports(switch) == []


def test_packets_without_ipv4_count_as_one_flow() -> None:
    """Fields of invalid headers hold what came before, on BMv2; here they are random."""
    prepared = pipeline.prepare(compiled().p4info, compiled().json_text.encode())
    junk = build_c(generate_c(prepared.program, vary_undefined=True))
    model = FabricModel(topology(), info(), FACTS, FabricPolicy.of(topology()))
    measure = call("tune_queue", number=200, time_per_byte=1, interval=INTERVAL)
    back_to_h2 = match(port=Exact(2), **{"class": Exact(0)})
    here, there = topology().host("h2"), topology().host("h1")
    request = Ether(src=here.mac, dst="ff:ff:ff:ff:ff:ff") / ARP(
        hwsrc=here.mac, psrc=str(here.address.ip), pdst=str(there.address.ip)
    )
    with Switch(CoreConfig(cpu_port=255, priorities=8, tick_ps=1000)) as switch:
        switch.load(replace(prepared, library=junk))
        write(switch, *desired_entries(model, "s1"), TableEntry(QUEUE_TABLE, back_to_h2, measure))
        for at in (*range(1000, 11_000, 1000), 60 * US):
            switch.inject(2, bytes(request), at_ns=at)
        answers = switch.run_until(200 * US)
        assert [each.port for each in answers] == [2] * 11
        (report,) = (each for each in switch.digests if each.name == DIGEST)
        (message,) = digest_messages("s1", report.message, info())
    assert (message.values["port"], message.values["cells"]) == (2, 1)


def port_1() -> TunedQueue:
    policy = FabricPolicy.of(topology())
    queues = queues_of(topology(), topology().switch("s1"), policy, FACTS)
    return next(queue for queue in queues if queue.port == 1)


def marked(switch: Switch, at_ns: int, count: int) -> int:
    """Send so many frames at once; return how many were marked as they left."""
    for _ in range(count):
        switch.inject(2, bytes(frame(1)), at_ns=at_ns)
    outputs = switch.run_until(at_ns + 1_000_000)
    return sum(Ether(each.packet)[IP].tos & 3 == 3 for each in outputs if each.port == 1)


def test_a_queue_marks_by_what_was_found_until_that_is_taken_away(switch: Switch) -> None:
    """64 frames of 1 kB at 100 Gb/s; the file's threshold is 400 kB, the one found 10 kB."""
    switch.configure_port(1, rate_bps=100 * 10**9)
    policy = FabricPolicy.of(topology())
    assert marked(switch, 1_000_000, 64) == 0
    sharp = EcnThresholds(10_000, 10_000, 1 << 32)
    entry = threshold_entry(port_1(), sharp, FACTS, policy)
    write(switch, entry)
    some = marked(switch, 4_000_000, 64)
    assert some == pytest.approx(64 - 10, abs=4)
    assert marked(switch, 8_000_000, 64) == some  # and so for as long as nobody writes
    switch.write([each.encode(info()) for each in changes((), (entry,), info())])
    assert marked(switch, 12_000_000, 64) == 0


# --- the learner ----------------------------------------------------------------------------------


def learner() -> EcnTuner:
    return EcnTuner(topology(), FACTS, FabricPolicy.of(topology()))


def told(tuner: EcnTuner, now: int, cells: int, rise_bytes: int) -> list[LearnedEntry]:
    values = {"port": 1, "class_of_service": 3, "ticks": INTERVAL, "bytes": 10_000}
    values |= {"rise": rise_bytes * 8 // 100, "cells": cells}
    learned = tuner.heard([DigestMessage("s1", DIGEST, values)], now)
    return [] if learned is None else [*learned.put["s1"]]


def found(tuner: EcnTuner) -> EcnThresholds:
    known = tuner.known["s1", 1, 3].found
    assert known is not None
    return known


def test_thresholds_follow_the_most_that_was_reported_twice_lately() -> None:
    tuner, queue = learner(), port_1()

    def right(flows: int, rise: int) -> EcnThresholds:
        args = (queue.rate_bps, queue.feedback_ps, queue.wait_ps, queue.room_bytes)
        return thresholds(Measured(flows, rise), *args)

    assert told(tuner, 0, 2, 0) and found(tuner) == right(2, 0)
    assert told(tuner, INTERVAL, 57, 3_000_000) == []  # one burst is none yet
    assert told(tuner, 2 * INTERVAL, 2, 0) == []
    assert told(tuner, 3 * INTERVAL, 2, 2_500_000)
    assert found(tuner) == right(64, 2_500_000)  # the less of the two
    assert told(tuner, 4 * INTERVAL, 2, 0) == []  # both are remembered
    memory_ns = queue.memory_ps // 1000
    assert told(tuner, INTERVAL + memory_ns - 1, 2, 0) == []
    assert told(tuner, INTERVAL + memory_ns, 2, 0) and found(tuner) == right(2, 0)
    assert tuner.totals() == {"ecn_reports": 7, "ecn_thresholds": 3}
    assert tuner.due() is None


def test_an_entry_has_both_thresholds_and_small_changes_are_not_written() -> None:
    tuner = learner()
    (entry,) = told(tuner, 0, 4, 1_900_000)
    assert isinstance(entry.action, ActionCall)
    arguments = dict(entry.action.arguments)
    assert arguments["high"] >= 4 * arguments["low"] > 0 and arguments["slope"] > 0
    before = found(tuner)
    assert told(tuner, 1, 4, 1_901_000) == [] and found(tuner) == before
    assert told(tuner, 2, 4, 1_950_000) == []  # the two most are 1.950 and 1.901 MB
    assert told(tuner, 3, 4, 1_950_000) != []


def test_off_takes_entries_away_and_on_puts_back_what_was_found_meanwhile() -> None:
    tuner = learner()
    (first,) = told(tuner, 0, 4, 0)
    off = tuner.switched(False, 1)
    assert off is not None and off.gone == {"s1": (first,)} and not off.put
    assert tuner.switched(False, 1) is None
    for now in (2, 3):
        assert told(tuner, now, 57, 3_000_000) == []
    on = tuner.switched(True, 4)
    assert on is not None and not on.gone
    (entry,) = on.put["s1"]
    assert entry.key == first.key and entry != first


def test_what_others_report_is_left_alone() -> None:

    values = {"port": 9, "class_of_service": 3, "ticks": 1, "bytes": 1, "rise": 1, "cells": 1}
    other = DigestMessage("s1", "queue_pair_sighting", {"port": 1})
    assert learner().heard([other, DigestMessage("s1", DIGEST, values)], 0) is None
