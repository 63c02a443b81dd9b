"""The in-process switch: time, links, controller packets, names and errors."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from softswitch.p4runtime.names import UnknownName
from softswitch.p4runtime.protos import p4r
from softswitch.p4runtime.status import PipelineError
from softswitch.switch import Output, PortState, Switch, SwitchError

GOLDEN = Path(__file__).resolve().parent.parent / "golden"
CPU_PORT = 255
TO_10_0_0_9 = bytes.fromhex(
    "0a000000001102cc00000001080045000028000100004011aec10a0100010a000009"
    "0fa0138800147eab68656c6c6f20776f726c6421"
)
LEARNED = bytes.fromhex(
    "0a000000001102cc00000001080045000028000100004011aeb90a090001c00002010fa0138800147ea3"
    "68656c6c6f20776f726c6421"
)
TWO_DIGESTS = """
#include <core.p4>
#include <v1model.p4>
header h_t { bit<8> a; bit<8> b; }
struct headers { h_t h; }
struct seen_t { bit<8> x; }
struct metadata { }
parser P(packet_in p, out headers hdr, inout metadata meta, inout standard_metadata_t std) {
    state start { p.extract(hdr.h); transition accept; }
}
control V(inout headers hdr, inout metadata meta) { apply { } }
control I(inout headers hdr, inout metadata meta, inout standard_metadata_t std) {
    apply {
        if (hdr.h.a != 0) { digest<seen_t>(1, { hdr.h.a }); }
        else { digest<seen_t>(1, { hdr.h.b }); }
    }
}
control E(inout headers hdr, inout metadata meta, inout standard_metadata_t std) { apply { } }
control C(inout headers hdr, inout metadata meta) { apply { } }
control D(packet_out p, in headers hdr) { apply { p.emit(hdr); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
"""


@pytest.fixture
def l3() -> Iterator[Switch]:
    with Switch.from_json(GOLDEN / "l3.json", GOLDEN / "l3.p4info.txtpb") as switch:
        switch.table_add(
            "I.route",
            {"h.ip.dst": ("10.0.0.0", 8)},
            "I.fwd",
            {"mac": "02:00:00:00:00:02", "port": 2},
        )
        yield switch


@pytest.fixture
def features() -> Iterator[Switch]:
    info = GOLDEN / "features.p4info.txtpb"
    with Switch.from_json(GOLDEN / "features.json", info, cpu_port=CPU_PORT) as switch:
        yield switch


# --- packets and time -----------------------------------------------------------------------------


def test_a_packet_is_routed(l3: Switch) -> None:
    l3.inject(port=1, packet=TO_10_0_0_9, at_ns=500)
    (output,) = l3.run_until(at_ns=1_000)
    assert (output.port, output.at_ns) == (2, 500)
    assert output.packet[:6] == bytes.fromhex("020000000002")
    assert output.packet[22] == TO_10_0_0_9[22] - 1  # TTL
    assert l3.run_until(at_ns=2_000) == []
    assert l3.stats(2).tx_packets == 1


def test_a_link_takes_its_time(l3: Switch) -> None:
    """10 Gb/s and 5 us: 84 B slots of 67.2 ns, one after the other, 5 us later."""
    l3.configure_port(2, rate_bps=10_000_000_000, delay_ns=5_000)
    for _ in range(3):
        l3.inject(1, TO_10_0_0_9)
    assert [o.at_ns for o in l3.run_until(1_000_000)] == [5_067, 5_134, 5_201]


def test_a_short_queue_drops(l3: Switch) -> None:
    l3.configure_port(2, rate_bps=1_000_000, queue_packets=2)
    for _ in range(10):
        l3.inject(1, TO_10_0_0_9)
    sent = len(l3.run_until(10**9))
    assert 2 <= sent <= 3
    assert l3.stats(2).drop_queue == 10 - sent


def test_a_blocked_port_holds_its_packets(l3: Switch) -> None:
    l3.set_port(2, PortState.BLOCKED)
    l3.inject(1, TO_10_0_0_9)
    assert l3.run_until(1_000) == []
    l3.set_port(2, PortState.UP)
    assert [o.port for o in l3.run_until(2_000)] == [2]


def test_a_port_that_is_down_drops(l3: Switch) -> None:
    l3.set_port(2, PortState.DOWN)
    l3.inject(1, TO_10_0_0_9)
    assert l3.run_until(1_000) == []
    l3.set_port(2, PortState.UP)
    assert l3.run_until(2_000) == []


def test_time_does_not_run_backwards(l3: Switch) -> None:
    l3.run_until(1_000)
    with pytest.raises(SwitchError, match="at 1000 ns"):
        l3.run_until(999)
    with pytest.raises(SwitchError, match="in the past"):
        l3.inject(1, TO_10_0_0_9, at_ns=1)


def test_the_same_run_gives_the_same_bytes(l3: Switch) -> None:
    def run() -> list[Output]:
        with Switch.from_json(GOLDEN / "l3.json", GOLDEN / "l3.p4info.txtpb") as switch:
            switch.table_add("route", {"h.ip.dst": ("10.0.0.0", 8)}, "fwd", {"mac": 2, "port": 2})
            switch.configure_port(2, rate_bps=123_456_789, delay_ns=77)
            for n in range(50):
                switch.inject(1, TO_10_0_0_9, at_ns=n * 313)
            return switch.run_until(10**9)

    assert run() == run()


# --- the controller's packets ---------------------------------------------------------------------


def test_packet_out_and_packet_in(features: Switch) -> None:
    features.packet_out(LEARNED, {"egress_port": 3})
    assert features.run_until(1_000) == [Output(3, LEARNED, 0)]
    match = {"hdr.ipv4.$valid$": 1}
    features.table_add("acl", match, "to_cpu", priority=1)
    features.inject(1, LEARNED, at_ns=5_000)
    assert features.run_until(10_000) == []
    (packet,) = features.packet_ins
    assert (dict(packet.metadata), packet.at_ns) == ({"ingress_port": 1, "pad": 0}, 5_000)
    assert packet.payload[14:22] == LEARNED[14:22]


def test_digests_are_listed_with_their_time(features: Switch) -> None:
    entry = p4r.DigestEntry(digest_id=features.names.digest_id("flow_digest_t"))
    entry.config.max_timeout_ns = 3_000
    features.insert(digest_entry=entry)
    features.table_add("acl", {"hdr.ipv4.$valid$": 1}, "learn", priority=1)
    features.inject(1, LEARNED, at_ns=2_000)
    features.run_until(4_999)
    assert features.digests == []
    features.inject(2, LEARNED, at_ns=20_000)
    features.run_until(1_000_000)
    assert [(d.at_ns, d.rows) for d in features.digests] == [
        (5_000, ((0x0A090001, 0xC0000201, 1),)),
        (23_000, ((0x0A090001, 0xC0000201, 2),)),
    ]


def test_digests_of_one_struct_come_from_every_place(tmp_path: Path) -> None:
    source = tmp_path / "twice.p4"
    source.write_text(TWO_DIGESTS)
    with Switch.from_p4(source) as switch:
        switch.set_port(1)
        switch.insert(digest_entry=p4r.DigestEntry(digest_id=switch.names.digest_id("seen_t")))
        switch.inject(1, b"\x05\x06", at_ns=1_000)
        switch.run_until(1_000_000)
        assert [d.rows for d in switch.digests] == [((5,),)]
        switch.inject(1, b"\x00\x06", at_ns=1_100_000)
        switch.run_until(2_000_000)
        assert [d.rows for d in switch.digests] == [((5,),), ((6,),)]


def test_idle_entries_are_listed_with_their_time(features: Switch) -> None:
    entry = features.names.entry("acl", {"hdr.ipv4.$valid$": 1}, "permit", priority=1)
    entry.idle_timeout_ns = 10_000
    features.insert(table_entry=entry)
    features.inject(1, LEARNED, at_ns=6_000)
    features.run_until(27_000)
    assert [notice.timestamp for notice in features.idle_timeouts] == [16_000, 26_000]


# --- what goes wrong ------------------------------------------------------------------------------


def test_packet_out_without_cpu_port_says_how_to_have_one(l3: Switch) -> None:
    with pytest.raises(SwitchError, match="cpu_port"):
        l3.packet_out(b"x")


def test_without_a_pipeline() -> None:
    with Switch() as switch:
        switch.inject(1, TO_10_0_0_9)
        assert switch.run_until(1_000) == []
        assert switch.switch_stats().drop_no_pipeline == 1
        with pytest.raises(SwitchError, match="no pipeline"):
            switch.write([])
        with pytest.raises(SwitchError, match="no pipeline"):
            switch.table_add("t", {}, "a")


@pytest.mark.parametrize(
    ("table", "match", "action", "params", "says"),
    [
        ("I.rout", {}, "I.fwd", {}, "did you mean 'I.route'"),
        ("I.route", {"h.ip.src": 1}, "I.fwd", {}, "no match field 'h.ip.src'"),
        ("I.route", {}, "I.fw", {}, "did you mean 'I.fwd'"),
        ("I.route", {}, "I.fwd", {"macs": 1}, "did you mean 'mac'"),
        ("I.route", {"h.ip.dst": ("10.0.0", 8)}, "I.fwd", {}, "'10.0.0' is not a value"),
        ("I.route", {"h.ip.dst": (-1, 8)}, "I.fwd", {}, "-1 is not a value"),
    ],
)
def test_unknown_names_are_explained(
    l3: Switch, table: str, match: dict[str, object], action: str, params: dict[str, int], says: str
) -> None:
    with pytest.raises(UnknownName) as unknown:
        l3.table_add(table, match, action, params)
    assert says in str(unknown.value)


def test_files_that_can_not_be_used(tmp_path: Path) -> None:
    info = GOLDEN / "l3.p4info.txtpb"
    with pytest.raises(FileNotFoundError):
        Switch.from_json(tmp_path / "none.json", info)
    broken = tmp_path / "broken.json"
    broken.write_text("{]")
    with pytest.raises(PipelineError, match="JSON"):
        Switch.from_json(broken, info)
    text = tmp_path / "p4info.txtpb"
    text.write_text("tables { name")
    with pytest.raises(PipelineError, match="P4Info"):
        Switch.from_json(GOLDEN / "l3.json", text)
    with pytest.raises(PipelineError, match="do not belong together"):
        Switch.from_json(GOLDEN / "l3.json", GOLDEN / "features.p4info.txtpb")


def test_a_new_pipeline_forgets_the_old_entries(l3: Switch) -> None:
    pipeline = l3.device.pipeline
    assert pipeline is not None
    l3.set_pipeline(pipeline.p4info, pipeline.device_config)
    l3.inject(1, TO_10_0_0_9)
    assert l3.run_until(1_000) == []


def test_a_p4_program_is_compiled(tmp_path: Path) -> None:
    with Switch.from_p4(GOLDEN / "l3.p4") as switch:
        switch.table_add("I.route", {"h.ip.dst": ("10.0.0.0", 8)}, "I.fwd", {"mac": 2, "port": 4})
        switch.inject(1, TO_10_0_0_9)
        assert [o.port for o in switch.run_until(1_000)] == [4]


def test_importing_the_package_is_cheap() -> None:
    """No gRPC, no finsy, no C core until they are needed."""
    code = (
        "import sys, softswitch; "
        "print([m for m in ('grpc', 'finsy', 'google.protobuf', 'cffi') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
    code = (
        "import sys; from softswitch import Switch; "
        "print([m for m in ('grpc', 'finsy', 'asyncio') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
