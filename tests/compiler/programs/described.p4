// Text for the control plane: annotations over several lines keep their comments; a table that
// only the key of another one applies; types and ids of everything that may carry them.
#include <core.p4>
#include <v1model.p4>

@p4runtime_translation("lab/port", string) type bit<9> port_t;
@mine("a type") type bit<12> vlan_t;
enum bit<8> kind_t { DATA = 1, ACK = 7 }

header probe_t { bit<8> kind; bit<8> hops; bit<16> vlan; bit<32> key; }
@controller_header("packet_in")
header to_controller_t { port_t port; @id(9) @brief("why") bit<7> reason; @hidden bit<8> pad; }
struct headers { to_controller_t top; probe_t probe; }
struct metadata { vlan_t vlan; bit<16> class; }

struct accepted_t {
    @match(ternary) @id(4) bit<8> kind;
    @brief("how far") bit<8> hops;
    @match(lpm) bit<16> vlan;
}

parser ProbeParser(packet_in packet, out headers hdr, inout metadata meta, inout standard_metadata_t sm) {
    @brief("probes to look at") value_set<accepted_t>(8) accepted;
    state start {
        packet.extract(hdr.probe);
        transition select(hdr.probe.kind, hdr.probe.hops, hdr.probe.vlan) {
            accepted: accept;
            default: accept;
        }
    }
}

control Verify(inout headers hdr, inout metadata meta) { apply { } }

control Count(inout headers hdr) {
    @description("by kind // not by hop")
    counter(256, CounterType.packets_and_bytes) seen;
    apply { seen.count((bit<32>)hdr.probe.kind); }
}

control MyIngress(inout headers hdr, inout metadata meta, inout standard_metadata_t sm) {
    Count() probes;
    @name("other") Count() others;

    @action_restriction("
        // 0 is no VLAN: a comment is part of the text.
        vlan != 0;    /* this one, too */
    ")
    action tag(@refers_to(classes, vlan) vlan_t vlan, @id(5) kind_t kind, bit<1> keep) {
        meta.vlan = vlan;
        if (keep == 0) { hdr.probe.kind = kind; }
    }
    action to_port(port_t port) { sm.egress_spec = (bit<9>)port; }

    @entry_restriction("
        // Two lines
        // of comment,

        hops::mask == 0 || kind == 1;
    ")
    @size_hint[rows=4, exact=true, unit="KiB"] @words["one", 2, false]
    table classes {
        key = {
            hdr.probe.kind: ternary @id(3) @format(HEX) @brief("of the probe");
            hdr.probe.hops: range @name("hops");
            meta.vlan: exact;
            hdr.probe.isValid(): exact;
            hdr.probe.key & 0xff00: lpm @description("upper
half");
            hdr.probe.vlan[11:4]: optional;
        }
        actions = { @tableonly tag; @proto_id(2) to_port; @defaultonly NoAction; }
        const default_action = NoAction;
        size = 64;
    }
    table known { key = { hdr.probe.key: exact; } actions = { NoAction; } size = 0; }
    table outcome {
        key = { known.apply().hit: exact @name("is_known"); }
        actions = { to_port; NoAction; }
        const entries = { true : NoAction(); }
    }
    apply {
        classes.apply();
        outcome.apply();
        probes.apply(hdr);
        others.apply(hdr);
    }
}

control MyEgress(inout headers hdr, inout metadata meta, inout standard_metadata_t sm) { apply { } }
control Compute(inout headers hdr, inout metadata meta) { apply { } }
control Deparse(packet_out packet, in headers hdr) { apply { packet.emit(hdr.probe); } }

@pkginfo(name="described", version="2") @brief("names and notes")
V1Switch(ProbeParser(), Verify(), MyIngress(), MyEgress(), Compute(), Deparse()) main;
