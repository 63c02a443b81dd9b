"""Traces of the in-process switch: every record of one packet, branches, and that tracing changes
nothing.
"""

from __future__ import annotations

import functools
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from softswitch import Switch
from softswitch.core import Direction, PortImpair, PortState
from softswitch.p4runtime.protos import p4r
from softswitch.tracing import Outcome, PacketTrace
from softswitch.tracing import records as r
from softswitch.tracing.session import TraceError
from softswitch.tracing.text import COLOURS, render, value_text
from tests.softswitch import vectors

GOLDEN = Path(__file__).resolve().parent.parent / "golden"
FRAME = bytes.fromhex(
    "0a000000001102cc00000001080045000028000100004011aec10a010001c00002010fa0138800147eab"
    "68656c6c6f20776f726c6421"
)
US = 1_000_000  # in ps
NO_EFFECTS = r.Effects()


@pytest.fixture
def l3() -> Iterator[Switch]:
    with Switch.from_json(GOLDEN / "l3.json", GOLDEN / "l3.p4info.txtpb") as switch:
        yield switch


def routed(switch: Switch) -> None:
    switch.table_add(
        "I.route", {"h.ip.dst": ("192.0.2.0", 24)}, "I.fwd", {"mac": 0x0200_0000_0002, "port": 2}
    )


def values(**fields: tuple[int, int]) -> tuple[r.Value, ...]:
    return tuple(r.Value(name, bits, value) for name, (bits, value) in fields.items())


def test_every_record_of_a_packet_that_waits_for_its_port(l3: Switch) -> None:
    routed(l3)
    l3.configure_port(2, rate_bps=1_000_000_000, delay_ns=500)
    with l3.trace():
        l3.inject(1, FRAME, at_ns=0)
        l3.inject(3, FRAME, at_ns=0)
        assert len(l3.run_until(at_ns=5_000)) == 2
    first, second = l3.traced
    assert first.outcomes == second.outcomes == [Outcome.SENT]
    gap_ps = 84 * 8 * 1000  # 54 B and what a frame needs beside: the minimum slot
    expected = PacketTrace(
        number=2,
        at_ps=0,
        port=3,
        length=54,
        data=FRAME,
        branches=(
            r.Branch(
                0,
                "received",
                None,
                (
                    r.Ingress(0, 3),
                    r.State(
                        "start",
                        r.Effects(
                            added=(
                                r.HeaderValue(
                                    "eth",
                                    values(
                                        dst=(48, 0x0A00_0000_0011),
                                        src=(48, 0x02CC_0000_0001),
                                        type=(16, 0x800),
                                    ),
                                ),
                            )
                        ),
                    ),
                    r.State(
                        "ip",
                        r.Effects(
                            added=(
                                r.HeaderValue(
                                    "ip",
                                    values(
                                        v=(4, 4),
                                        ihl=(4, 5),
                                        tos=(8, 0),
                                        len=(16, 40),
                                        id=(16, 1),
                                        frag=(16, 0),
                                        ttl=(8, 64),
                                        proto=(8, 17),
                                        csum=(16, 0xAEC1),
                                        src=(32, 0x0A010001),
                                        dst=(32, 0xC0000201),
                                    ),
                                ),
                            )
                        ),
                    ),
                    r.Parsed(34, "NoError", False),
                    r.Condition("h.ip.isValid()", "l3.p4:15", True),
                    r.Lookup(
                        "I.route",
                        (r.KeyValue("h.ip.dst", "lpm", 32, 0xC0000201, "0xc0000200/24"),),
                        True,
                        0,
                        "I.fwd",
                        values(mac=(48, 0x0200_0000_0002), port=(9, 2)),
                        False,
                        (),
                        r.Effects(
                            changes=(
                                r.Change("standard_metadata.egress_spec", 9, 0, 2),
                                r.Change("eth.dst", 48, 0x0A00_0000_0011, 0x0200_0000_0002),
                                r.Change("eth.src", 48, 0x02CC_0000_0001, 0x0A00_0000_0011),
                                r.Change("ip.ttl", 8, 64, 63),
                            )
                        ),
                    ),
                    r.Enqueue(0, 2, 0, 0, 0, 0),
                    r.Egress(gap_ps, 2, 0, 0, gap_ps),
                    r.Deparsed(
                        34, 54, r.Effects(changes=(r.Change("ip.csum", 16, 0xAEC1, 0xAFC1),))
                    ),
                    r.End(Outcome.SENT, 2 * gap_ps + 500_000, 2, 54, ""),
                ),
            ),
        ),
    )
    assert second == expected
    assert PacketTrace.from_json(json.loads(json.dumps(second.to_json()))) == second


def test_a_miss_and_why_it_is_dropped(l3: Switch) -> None:
    with l3.trace():
        l3.inject(1, FRAME)
    (trace,) = l3.traced
    (lookup,) = trace.lookups("route")
    assert (lookup.hit, lookup.action, lookup.key[0].entry) == (False, "I.drop", "")
    end = trace.branches[0].end
    assert end is not None and end.outcome is Outcome.DROPPED_IN_INGRESS
    assert end.why == "egress_spec was set to the drop port by action I.drop of table I.route"
    assert end.outcome.dropped


@pytest.mark.parametrize(
    ("state", "capacity", "outcome", "why"),
    [
        (PortState.DOWN, 64, Outcome.PORT_DOWN, "port 2 is down"),
        (PortState.BLOCKED, 1, Outcome.QUEUE_FULL, "queue of port 2 is full (1 packets, 54 B)"),
        (PortState.BLOCKED, 64, Outcome.UNFINISHED, ""),
    ],
)
def test_what_a_port_does(
    l3: Switch, state: PortState, capacity: int, outcome: Outcome, why: str
) -> None:
    routed(l3)
    l3.configure_port(2, queue_packets=capacity)
    l3.set_port(2, state)
    l3.trace()
    l3.inject(1, FRAME)
    l3.inject(1, FRAME)
    last = l3.traced[-1]
    assert last.outcomes == [outcome]
    assert last.finished == (outcome is not Outcome.UNFINISHED)
    end = last.branches[0].end
    assert why in (end.why if end is not None else "")


def test_what_a_bad_link_does(l3: Switch) -> None:
    routed(l3)
    l3.trace()
    l3.core.impair_port(2, Direction.SEND, PortImpair(loss=(1 << 32) - 1, seed=1))
    l3.inject(1, FRAME)
    l3.core.impair_port(2, Direction.SEND, PortImpair(duplicate=(1 << 32) - 1, seed=1))
    l3.inject(1, FRAME)
    lost, twice = l3.traced
    assert lost.outcomes == [Outcome.LOST]
    assert lost.branches[0].outcome.dropped
    assert twice.outcomes == [Outcome.SENT, Outcome.SENT]
    assert [branch.origin for branch in twice.branches] == ["received", "duplicate"]


def test_a_packet_that_waits_is_shown_and_later_complete(l3: Switch) -> None:
    routed(l3)
    l3.set_port(2, PortState.BLOCKED)
    l3.trace()
    l3.inject(1, FRAME)
    assert "still on its way" in l3.explain()
    l3.run_until(at_ns=7_000)
    l3.set_port(2, PortState.UP)
    l3.run_until(at_ns=8_000)
    (trace,) = l3.traced
    (egress,) = (step for step in trace.steps if isinstance(step, r.Egress))
    assert egress.waited_ps == 7_000_000
    assert trace.outcomes == [Outcome.SENT]


def test_a_short_packet_and_a_wrong_checksum(l3: Switch) -> None:
    l3.trace()
    l3.inject(1, FRAME[:20])
    l3.inject(1, FRAME[:24] + b"\0\0" + FRAME[26:])
    short, wrong = (next(s for s in t.steps if isinstance(s, r.Parsed)) for t in l3.traced)
    assert (short.consumed, short.error) == (14, "PacketTooShort")
    assert wrong.error == "NoError"
    assert "ended with PacketTooShort" in l3.explain()


def test_only_what_was_asked_for(l3: Switch) -> None:
    assert l3.traced == []
    assert l3.explain() == "no packet was traced"
    with l3.trace("udp dst port 5001", ports=[1], limit=1):
        for port, frame in ((2, FRAME), (1, FRAME[:30]), (1, FRAME)):
            l3.inject(port, frame)
        assert l3.traced == []
    other = FRAME[:36] + b"\x13\x89" + FRAME[38:]
    with l3.trace("udp dst port 5001", ports=[1], limit=1):
        l3.inject(2, other)
        l3.inject(1, other)
        l3.inject(1, other)
    l3.inject(1, other)
    assert [trace.port for trace in l3.traced] == [1]


def test_another_program_meanwhile() -> None:
    with Switch() as switch:
        with pytest.raises(TraceError, match="no pipeline"):
            switch.trace()
        first = Switch.from_json(GOLDEN / "l3.json", GOLDEN / "l3.p4info.txtpb")
        second = Switch.from_json(GOLDEN / "features.json", GOLDEN / "features.p4info.txtpb")
        for other in (first, second):
            assert other.device.pipeline is not None
            switch.load(other.device.pipeline)
            if other is first:
                switch.trace()
            switch.inject(1, FRAME)
        tables = [{lookup.table for lookup in trace.lookups()} for trace in switch.traced]
        assert tables[0] == {"I.route"}
        assert "FabricIngress.vrf_map" in tables[1]


# --- with everything that v1model has -------------------------------------------------------


@functools.cache
def recorded(compiler: str) -> tuple[Any, Any, list[PacketTrace], str]:
    """All recorded cases of features.p4 without and with tracing; the traces, and their text."""
    plain = vectors.run("features", compiler)
    runner = vectors.Runner("features", compiler)
    runner.switch.trace()
    traced = runner.run()
    return plain, traced, runner.switch.traced, runner.switch.explain()


@pytest.mark.parametrize("compiler", ["p4c", "weft"])
def test_tracing_changes_nothing(compiler: str) -> None:
    plain, traced, traces, _ = recorded(compiler)
    assert [(x.case, x.problems) for x in traced] == [(x.case, x.problems) for x in plain]
    assert len(traces) > 100
    assert all(trace.whole and trace.finished for trace in traces)


@pytest.mark.parametrize("compiler", ["p4c", "weft"])
def test_everything_that_a_packet_can_become(compiler: str) -> None:
    _, _, traces, text = recorded(compiler)
    origins = Counter(branch.origin for trace in traces for branch in trace.branches)
    assert set(origins) == {
        "received", "ingress clone", "replica", "resubmitted", "recirculated",
    }  # fmt: skip
    for trace in traces:
        assert [branch.number for branch in trace.branches] == [*range(len(trace.branches))]
        for branch in trace.branches:
            assert (branch.parent is None) == (branch.number == 0)
            if branch.origin == "resubmitted":
                assert branch.parent is not None
                assert trace.branches[branch.parent].outcome is Outcome.RESUBMITTED
    kinds = {type(step) for trace in traces for step in trace.steps}
    assert kinds == set(r.STEPS.values())
    uses = {use.kind for t in traces for s in t.steps for use in getattr(s, "uses", ())}
    assert uses == {"register read", "register write", "counter", "meter"}
    for trace in traces:
        assert PacketTrace.from_json(json.loads(json.dumps(trace.to_json()))) == trace
    assert "branch 1: ingress clone of branch 0" in text


SMALL = """
#include <core.p4>
#include <v1model.p4>
header h_t { bit<8> kind; bit<32> src; }
struct headers { h_t h; }
struct meta {}
parser P(packet_in p, out headers h, inout meta m, inout standard_metadata_t s) {
    state start { p.extract(h.h); verify(h.h.kind != 99, error.NoMatch); transition accept; } }
control V(inout headers h, inout meta m) { apply {} }
control I(inout headers h, inout meta m, inout standard_metadata_t s) {
    apply {
        s.egress_spec = 2;
        log_msg("kind {} of {}", {h.h.kind, h.h.src});
        if (h.h.kind == 1) { s.mcast_grp = 7; }
        if (h.h.kind == 2) { s.priority = 5; }
        if (h.h.kind == 3) { clone(CloneType.I2E, 33); }
        if (h.h.kind == 4) { assert(h.h.src == 1); h.h.setInvalid(); }
    }
}
control E(inout headers h, inout meta m, inout standard_metadata_t s) {
    apply {
        if (h.h.kind == 5 && s.instance_type == 0) { clone(CloneType.E2E, 44); }
        if (h.h.kind == 6) { mark_to_drop(s); }
    }
}
control C(inout headers h, inout meta m) { apply {} }
control D(packet_out p, in headers h) { apply { p.emit(h.h); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
"""


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Switch]:
    source = tmp_path_factory.mktemp("p4") / "small.p4"
    source.write_text(SMALL)
    with Switch.from_p4(source) as switch:
        session = p4r.CloneSessionEntry(session_id=44)
        session.replicas.add(egress_port=3, instance=1)
        entry = p4r.PacketReplicationEngineEntry(clone_session_entry=session)
        switch.insert(packet_replication_engine_entry=entry)
        yield switch


@pytest.mark.parametrize(
    ("kind", "outcomes", "why"),
    [
        (0, [Outcome.SENT], ""),
        (1, [Outcome.NO_SUCH_GROUP], "there is no multicast group 7"),
        (2, [Outcome.NO_SUCH_QUEUE], "no queue of the priority"),
        (3, [Outcome.SENT], ""),
        (4, [Outcome.SENT], ""),
        (5, [Outcome.SENT, Outcome.SENT], ""),
        (6, [Outcome.DROPPED_IN_EGRESS], "set to the drop port by mark_to_drop(s) (small.p4:"),
        (99, [Outcome.SENT], ""),
    ],
)
def test_how_packets_end(small: Switch, kind: int, outcomes: list[Outcome], why: str) -> None:
    before = len(small.traced)
    with small.trace():
        small.inject(1, bytes([kind, 0, 0, 0, 9]) + bytes(40))
        small.run_until(small.now_ns + 1000)
    (trace,) = small.traced[before:]
    assert trace.outcomes == outcomes
    end = trace.branches[-1].end
    assert end is not None and (why in end.why if why else end.why == "")
    uses = [use for step in trace.steps for use in getattr(step, "uses", ())]
    assert r.Use("log", f"kind {kind} of 9") in uses
    assert (r.Use("assertion failed", "assert failed") in uses) == (kind == 4)
    clones = [step for step in trace.steps if isinstance(step, r.Clone)]
    assert clones == {
        3: [r.Clone("ingress", 33, False)],
        5: [r.Clone("egress", 44, True)],
    }.get(kind, [])
    removed = [
        name for step in trace.steps for name in getattr(step, "effects", NO_EFFECTS).removed
    ]
    assert removed == (["h"] if kind == 4 else [])
    (parsed,) = (step for step in trace.steps if isinstance(step, r.Parsed))
    assert parsed.error == ("NoMatch" if kind == 99 else "NoError")


# --- text -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "bits", "value", "text"),
    [
        ("ethernet.dst", 48, 0x0200_0A00_0101, "02:00:0a:00:01:01"),
        ("standard_metadata.ingress_global_timestamp", 48, 4096, "0x1000"),
        ("ipv4.src", 32, 0x0A000101, "10.0.1.1"),
        ("dst", 32, 0x0A000101, "10.0.1.1"),
        ("hdr.ipv4.dstAddr", 32, 0x0A000101, "10.0.1.1"),
        ("arp.target_ip", 32, 0x0A000101, "10.0.1.1"),
        ("tcp.sequence", 32, 0x0A000101, "167772417"),
        ("meta.description", 32, 12, "12"),
        ("ipv6.src", 128, 1, "::1"),
        ("ethernet.type", 16, 0x800, "0x0800"),
        ("udp.dst_port", 16, 4791, "4791"),
        ("reth.address", 64, 0x7F00_0000_1000, "0x7f0000001000"),
        ("egress_spec", 9, 511, "511"),
    ],
)
def test_values_as_people_write_them(name: str, bits: int, value: int, text: str) -> None:
    assert value_text(name, bits, value) == text


def test_the_text_of_a_packet(l3: Switch) -> None:
    routed(l3)
    with l3.trace():
        l3.inject(1, FRAME)
    assert l3.explain().splitlines() == [
        "packet 1: 54 B on port 1 at 0.000 us",
        "  ingress     from port 1",
        "  parser      start",
        "                extracts eth: dst 0a:00:00:00:00:11, src 02:cc:00:00:00:01, type 0x0800",
        "  parser      ip",
        "                extracts ip: v 4, ihl 5, tos 0, len 40, id 1, frag 0, ttl 64, proto 17, "
        "csum 44737, src 10.1.0.1, dst 192.0.2.1",
        "  parser      done: 34 B of headers",
        "  if          h.ip.isValid(): true  l3.p4:15",
        "  table       I.route: hit",
        "                h.ip.dst = 192.0.2.1 (lpm)  entry 192.0.2.0/24",
        "              I.fwd(mac = 02:00:00:00:00:02, port = 2)",
        "                standard_metadata.egress_spec: 0 -> 2",
        "                eth.dst: 0a:00:00:00:00:11 -> 02:00:00:00:00:02",
        "                eth.src: 02:cc:00:00:00:01 -> 0a:00:00:00:00:11",
        "                ip.ttl: 64 -> 63",
        "  queue       port 2, priority 0: depth 0 (0 packets, 0 B in front)",
        "  egress      port 2, priority 0 at 0.000 us: waited 0.000 us, depth 0 left",
        "  deparser    34 B of headers, 54 B in all",
        "                ip.csum: 44737 -> 44993",
        "  sent        54 B on port 2, there at 0.000 us",
    ]
    coloured = render(l3.traced[0], COLOURS, switch="s1")
    assert coloured.startswith("\033[1ms1 packet 1: 54 B on port 1\033[0m")
    assert "\033" not in render(l3.traced[0])
