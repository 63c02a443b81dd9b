// Source routing: the sender stacks the ports, each switch pops one.
#include <core.p4>
#include <v1model.p4>

#define MAX_HOPS 9
const bit<16> TYPE_SRCROUTING = 0x1234;

header ethernet_t { bit<48> dst; bit<48> src; bit<16> type; }
header hop_t { bit<1> bos; bit<15> port; }
struct metadata { bool known; }
struct headers { ethernet_t ethernet; hop_t[MAX_HOPS] hops; }

parser MyParser(packet_in packet, out headers hdr, inout metadata meta, inout standard_metadata_t sm) {
    state start {
        meta.known = false;
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.type) { TYPE_SRCROUTING: parse_hop; default: accept; }
    }
    state parse_hop {
        packet.extract(hdr.hops.next);
        meta.known = hdr.hops.last.bos == 1;
        transition select(hdr.hops.last.bos) { 1: accept; default: parse_hop; }
    }
}

control MyVerify(inout headers hdr, inout metadata meta) { apply { } }

control MyIngress(inout headers hdr, inout metadata meta, inout standard_metadata_t sm) {
    action drop() { mark_to_drop(sm); }
    action next_hop() {
        sm.egress_spec = (bit<9>)hdr.hops[0].port;
        hdr.hops.pop_front(1);
    }
    action finish() { hdr.ethernet.type = 0x0800; }
    apply {
        if (hdr.hops[0].isValid() && meta.known) {
            if (hdr.hops[0].bos == 1) {
                finish();
            }
            next_hop();
        } else {
            drop();
        }
    }
}

control MyEgress(inout headers hdr, inout metadata meta, inout standard_metadata_t sm) { apply { } }
control MyCompute(inout headers hdr, inout metadata meta) { apply { } }
control MyDeparser(packet_out packet, in headers hdr) {
    apply { packet.emit(hdr.ethernet); packet.emit(hdr.hops); }
}

V1Switch(MyParser(), MyVerify(), MyIngress(), MyEgress(), MyCompute(), MyDeparser()) main;
