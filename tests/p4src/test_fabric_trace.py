"""What the trace of a packet through fabric.p4 says, field by field, from both compilers.

h1 -- 1 +----+ 2 -- slow -- h2
        | s1 |
        +----+ 3, 4 -- spines
"""

from __future__ import annotations

from typing import Any

from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Packet, Raw

from softswitch.tracing import Outcome, PacketTrace
from softswitch.tracing import records as r

SLOW_BPS = 1_000_000
SLOT_PS = (82 + 24) * 8 * 1_000_000  # of an 82 B frame, with preamble, FCS and gap
HEADERS = ("ethernet", "ipv4", "udp", "bth")
ROUTER = 0x020100000001
H1_MAC, H2_MAC = 0x02000A000101, 0x02000A000102
H1, H2 = 0x0A000101, 0x0A000102
FORWARD = "FabricIngress.forwarding.forward_to"


def roce(leaf: Any, dst: str, **ip: object) -> Packet:
    network = IP(src="10.0.1.1", dst=dst, id=7, tos=2, **ip)
    data = UDP(sport=50000, dport=4791, chksum=0) / Raw(bytes(40))
    return Ether(src=leaf.host("h1").mac, dst=leaf.me.mac) / network / data


def traced(leaf: Any, *frames: Packet) -> list[PacketTrace]:
    with leaf.switch.trace("udp dst port 4791"):
        leaf.send(1, *frames)
        leaf.settle(10**9)
    traces: list[PacketTrace] = leaf.switch.traced
    return traces


def header_changes(effects: r.Effects) -> dict[str, tuple[int, int]]:
    """Return the changes of headers; metadata have other names after each compiler."""
    return {
        change.field: (change.before, change.after)
        for change in effects.changes
        if change.field.split(".")[0] in HEADERS
    }


def lookup_rows(trace: PacketTrace) -> list[tuple[object, ...]]:
    return [
        (
            step.table,
            tuple((key.value, key.entry) for key in step.key),
            step.hit,
            step.action,
            {param.name: param.value for param in step.params},
            header_changes(step.effects),
        )
        for step in trace.lookups()
    ]


def test_every_field_of_a_routed_packet(leaf: Any) -> None:
    leaf.switch.configure_port(2, rate_bps=SLOW_BPS, delay_ns=1000, queue_packets=10)
    first, second, third = traced(leaf, *[roce(leaf, "10.0.1.2")] * 3)
    assert (third.port, third.length, third.whole) == (1, 82, True)
    assert third.data == bytes(roce(leaf, "10.0.1.2"))
    (branch,) = third.branches
    assert (branch.number, branch.origin, branch.parent) == (0, "received", None)

    states = [step for step in branch.steps if isinstance(step, r.State)]
    extracted = {
        header.name: {field.name: field.value for field in header.fields if field.value}
        for state in states
        for header in state.effects.added
    }
    assert extracted == {
        "ethernet": {"dst": ROUTER, "src": H1_MAC, "type": 0x800},
        "ipv4": {
            "version": 4, "ihl": 5, "ecn": 2, "length": 68, "id": 7, "ttl": 64, "protocol": 17,
            "checksum": IP(bytes(third.data)[14:]).chksum, "src": H1, "dst": H2,
        },
        "udp": {"src_port": 50000, "dst_port": 4791, "length": 48},
        "bth": {},
    }  # fmt: skip
    assert [state.name for state in states if state.effects.added] == [
        "parse_ethernet", "parse_ipv4", "parse_udp", "parse_bth",
    ]  # fmt: skip
    assert r.Parsed(54, "NoError", False) in branch.steps

    assert lookup_rows(third) == [
        (
            "FabricIngress.begin_dpfr.dpfr_mode", (), False,
            "FabricIngress.begin_dpfr.disable_dpfr", {}, {},
        ),
        (
            "FabricIngress.host_guard.host_port", ((1, "0x1"),), True,
            "FabricIngress.host_guard.guard_host", {"address": H1}, {},
        ),
        (
            "FabricIngress.take_notification.notification_mode", (), False,
            "FabricIngress.take_notification.enable_notifications",
            {"switch_id": 1, "mac": 0x020100000001, "dscp": 48, "class_of_service": 7}, {},
        ),
        (
            "FabricIngress.parameters.router", (), False,
            "FabricIngress.parameters.set_router_mac", {"mac": ROUTER}, {},
        ),
        (
            "FabricIngress.parameters.dscp_class", ((0, ""),), False,
            "FabricIngress.parameters.set_class", {"class_of_service": 0}, {},
        ),
        (
            "FabricIngress.access.acl",
            ((1, ""), (0x800, ""), (H1, ""), (H2, ""), (17, ""), (4791, "")), False,
            "FabricIngress.access.permit_packet", {}, {},
        ),
        (
            "FabricIngress.echo.own_addresses", ((H2, ""),), False,
            "FabricIngress.echo.pass_packet", {}, {},
        ),
        (
            "FabricIngress.routing.ipv4_route", ((H2, f"{H2:#x}/32"),), True,
            "FabricIngress.routing.route_to", {"next_hop": 2}, {},
        ),
        (
            "FabricIngress.balance_load.dlb_class", ((0, ""),), False,
            "FabricIngress.balance_load.skip_balance", {}, {},
        ),
        (
            "FabricIngress.forwarding.next_hop", ((2, "0x2"),), True,
            FORWARD, {"port": 2, "src_mac": ROUTER, "dst_mac": H2_MAC},
            {
                "ethernet.dst": (ROUTER, H2_MAC),
                "ethernet.src": (H1_MAC, ROUTER),
                "ipv4.ttl": (64, 63),
            },
        ),
        (
            "FabricIngress.weigh_port.dlb_mode", (), False,
            "FabricIngress.weigh_port.skip_dlb_mode", {}, {},
        ),
        (
            "FabricIngress.tell_sources.fast_cnp_mode", (), False,
            "FabricIngress.tell_sources.disable_fast_cnp", {}, {},
        ),
        (
            "FabricIngress.queue_pairs.queue_pair_port", ((1, ""), (H1, "")), False,
            "FabricIngress.queue_pairs.skip_host", {}, {},
        ),
        (
            "FabricIngress.measure_arrivals.tuned_queue", ((2, ""), (0, "")), False,
            "FabricIngress.measure_arrivals.skip_measuring", {}, {},
        ),
        (
            "FabricIngress.ask_more.bolt_queue", ((2, ""), (0, "")), False,
            "FabricIngress.ask_more.skip_supply", {}, {},
        ),
        (
            "FabricEgress.parameters.ecn_threshold", ((2, ""), (0, "")), False,
            "FabricEgress.ecn_marking.disable_marking", {}, {},
        ),
        (
            "FabricEgress.path_telemetry.path_port", ((2, ""), (0, "")), False,
            "FabricEgress.path_telemetry.skip_path_port", {}, {},
        ),
    ]  # fmt: skip
    spec = [
        (change.before, change.after)
        for step in branch.steps
        for change in getattr(step, "effects", r.Effects()).changes
        if change.field == "standard_metadata.egress_spec"
    ]
    assert spec == [(0, 511), (511, 2)]  # dropped unless forwarded

    used = [use for step in branch.steps for use in getattr(step, "uses", ())]
    assert used == [
        r.Use("counter", "FabricIngress.receive_counters.port_rx", 1),
        r.Use("counter", "FabricIngress.roce_counters.roce_rx", 1),
        r.Use("counter", "FabricEgress.transmit_counters.port_tx", 2),
        r.Use("register read", "bolt_came", 16, 0),
        r.Use("register write", "bolt_left", 16, 0),
        r.Use("register read", "dpfr_sent", 2, 2),
        r.Use("register write", "dpfr_sent", 2, 3),
    ]

    sum_before = IP(bytes(third.data)[14:]).chksum
    assert [step for step in branch.steps if isinstance(step, r.Enqueue | r.Egress)] == [
        r.Enqueue(0, 2, 0, 1, 1, 82),
        r.Egress(2 * SLOT_PS, 2, 0, 0, 2 * SLOT_PS),
    ]
    (deparsed,) = (step for step in branch.steps if isinstance(step, r.Deparsed))
    assert (deparsed.header_bytes, deparsed.length) == (54, 82)
    assert header_changes(deparsed.effects) == {"ipv4.checksum": (sum_before, sum_before + 0x100)}
    assert branch.end == r.End(Outcome.SENT, 3 * SLOT_PS + 1_000_000, 2, 82, "")
    assert [trace.branches[0].end.at_ps for trace in (first, second, third)] == [  # type: ignore[union-attr]
        n * SLOT_PS + 1_000_000 for n in (1, 2, 3)
    ]


def test_the_conditions_as_they_stand_in_the_source(leaf: Any) -> None:
    (trace,) = traced(leaf, roce(leaf, "10.0.1.2", ttl=1))
    conditions = {
        (step.where.split(":")[0], step.text): step.value
        for step in trace.steps
        if isinstance(step, r.Condition)
    }
    assert conditions["routing.p4", "hdr.ipv4.ttl <= 1"] is True
    assert conditions["fabric.p4", "hdr.packet_out.isValid()"] is False
    assert conditions["admission.p4", "std.checksum_error == 1"] is False
    assert trace.lookups("ipv4_route") == []
    end = trace.branches[0].end
    assert end is not None and end.outcome is Outcome.DROPPED_IN_INGRESS
    assert end.why.startswith("egress_spec was set to the drop port by mark_to_drop(std)")


def test_the_spine_that_a_flow_gets(leaf: Any) -> None:
    (trace,) = traced(leaf, roce(leaf, "10.0.2.1"))
    (group,), (forwarded,) = trace.lookups("ecmp_group"), trace.lookups("forwarding.next_hop")
    assert group.hit and group.from_group
    (chosen,) = group.params
    assert forwarded.key[0].value == chosen.value
    end = trace.branches[0].end
    assert end is not None and end.port in (3, 4)
    assert r.Value("port", 9, end.port) in forwarded.params
    assert leaf.tx(end.port) == (1, 82)
