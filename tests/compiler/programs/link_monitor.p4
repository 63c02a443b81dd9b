// Probes that collect byte counts and times at every port; multicast, clones and digests beside.
#include <core.p4>
#include <v1model.p4>

const bit<16> TYPE_PROBE = 0x812;
#define MAX_HOPS 10
#define MAX_PORTS 8
typedef bit<48> time_t;
enum bit<8> kind_t { DATA = 0, PROBE = 1 }

header ethernet_t { bit<48> dst; bit<48> src; bit<16> type; }
header probe_t { bit<8> hop_count; }
header probe_data_t { bit<1> bos; bit<7> id; bit<8> port; bit<32> bytes; time_t last; time_t now; }
header probe_forward_t { bit<8> egress_spec; }
struct parser_metadata_t { bit<8> remaining; }
struct metadata {
    @field_list(1) bit<8> egress_spec;
    @field_list(1, 2) kind_t kind;
    parser_metadata_t parser_metadata;
}
struct headers {
    ethernet_t ethernet; probe_t probe; probe_data_t[MAX_HOPS] data; probe_forward_t[MAX_HOPS] forwards;
}
struct learned_t { bit<48> src; bit<9> port; }

parser ProbeParser(packet_in packet, out headers hdr, inout metadata meta) {
    state start {
        packet.extract(hdr.probe);
        meta.parser_metadata.remaining = hdr.probe.hop_count + 1;
        meta.kind = kind_t.PROBE;
        transition select(hdr.probe.hop_count) { 0: forwards; default: data; }
    }
    state data {
        packet.extract(hdr.data.next);
        transition select(hdr.data.last.bos) { 1: forwards; default: data; }
    }
    state forwards {
        packet.extract(hdr.forwards.next);
        meta.parser_metadata.remaining = meta.parser_metadata.remaining - 1;
        meta.egress_spec = hdr.forwards.last.egress_spec;
        transition select(meta.parser_metadata.remaining) { 0: accept; default: forwards; }
    }
}

parser MyParser(packet_in packet, out headers hdr, inout metadata meta, inout standard_metadata_t sm) {
    ProbeParser() probes;
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.type) { TYPE_PROBE: parse_probe; default: accept; }
    }
    state parse_probe {
        probes.apply(packet, hdr, meta);
        transition accept;
    }
}

control MyVerify(inout headers hdr, inout metadata meta) { apply { } }

control Learn(in headers hdr, inout standard_metadata_t sm) {
    action known() { }
    action unknown() { digest<learned_t>(1, { hdr.ethernet.src, sm.ingress_port }); }
    table sources {
        key = { hdr.ethernet.src: exact; sm.ingress_port: exact @name("port"); }
        actions = { known; @defaultonly unknown; }
        const default_action = unknown();
        size = 4096;
        support_timeout = true;
    }
    apply { sources.apply(); }
}

control MyIngress(inout headers hdr, inout metadata meta, inout standard_metadata_t sm) {
    Learn() learn;
    action flood(bit<16> group) { sm.mcast_grp = group; }
    action to_port(bit<9> port) { sm.egress_spec = port; }
    table mac {
        key = { hdr.ethernet.dst: exact; }
        actions = { to_port; flood; NoAction; }
    }
    apply {
        if (meta.kind == kind_t.PROBE) {
            sm.egress_spec = (bit<9>)meta.egress_spec;
            hdr.probe.hop_count = hdr.probe.hop_count + 1;
            clone_preserving_field_list(CloneType.I2E, 100, 1);
            exit;
        }
        learn.apply(hdr, sm);
        switch (mac.apply().action_run) {
            to_port: { if (sm.egress_spec == sm.ingress_port) { mark_to_drop(sm); return; } }
            flood: { }
            default: { mark_to_drop(sm); }
        }
    }
}

control MyEgress(inout headers hdr, inout metadata meta, inout standard_metadata_t sm) {
    register<bit<32>>(MAX_PORTS) bytes;
    register<time_t>(MAX_PORTS) times;
    counter(MAX_PORTS, CounterType.packets_and_bytes) out_counter;
    action set_id(bit<7> id) { hdr.data[0].id = id; }
    table identity { actions = { set_id; NoAction; } default_action = NoAction(); }
    apply {
        bit<32> count;
        bit<32> new_count;
        time_t last;
        time_t now = sm.egress_global_timestamp;
        bit<32> index = (bit<32>)sm.egress_port;
        out_counter.count(index);
        if (sm.instance_type != 0) { truncate(64); }
        @atomic {
            bytes.read(count, index);
            count = count + sm.packet_length;
            new_count = hdr.probe.isValid() ? 0 : count;
            bytes.write(index, new_count);
        }
        if (hdr.probe.isValid()) {
            hdr.data.push_front(1);
            hdr.data[0].setValid();
            hdr.data[0].bos = hdr.probe.hop_count == 1 ? 1w1 : 1w0;
            identity.apply();
            hdr.data[0].port = (bit<8>)sm.egress_port;
            hdr.data[0].bytes = count;
            times.read(last, index);
            times.write(index, now);
            hdr.data[0].last = last;
            hdr.data[0].now = now;
        }
    }
}

control MyCompute(inout headers hdr, inout metadata meta) { apply { } }
control MyDeparser(packet_out packet, in headers hdr) {
    apply { packet.emit(hdr); }
}

V1Switch(MyParser(), MyVerify(), MyIngress(), MyEgress(), MyCompute(), MyDeparser()) main;
