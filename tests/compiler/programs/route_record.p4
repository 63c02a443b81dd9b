// Route recording: every switch pushes its number and its queue depth into an IP option.
#include <core.p4>
#include <v1model.p4>

const bit<5> OPTION_RECORD = 31;
#define MAX_RECORDS 5

header ethernet_t { bit<48> dst; bit<48> src; bit<16> type; }
header ipv4_t {
    bit<4> version; bit<4> ihl; bit<8> diffserv; bit<16> total_len; bit<16> id; bit<3> flags;
    bit<13> frag; bit<8> ttl; bit<8> protocol; bit<16> checksum; bit<32> src; bit<32> dst;
}
header option_t { bit<1> copy; bit<2> class; bit<5> option; bit<8> length; }
header record_head_t { bit<16> count; }
header record_t { bit<32> switch_id; bit<32> depth; }

struct ingress_metadata_t { bit<16> count; }
struct parser_metadata_t { bit<16> remaining; }
struct metadata { ingress_metadata_t ingress_metadata; parser_metadata_t parser_metadata; }
struct headers {
    ethernet_t ethernet; ipv4_t ipv4; option_t option; record_head_t record_head;
    record_t[MAX_RECORDS] records;
}
error { IPHeaderTooShort }

parser MyParser(packet_in packet, out headers hdr, inout metadata meta, inout standard_metadata_t sm) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.type) { 0x800: parse_ipv4; default: accept; }
    }
    state parse_ipv4 {
        packet.extract(hdr.ipv4);
        verify(hdr.ipv4.ihl >= 5, error.IPHeaderTooShort);
        transition select(hdr.ipv4.ihl) { 5: accept; default: parse_option; }
    }
    state parse_option {
        packet.extract(hdr.option);
        transition select(hdr.option.option) { OPTION_RECORD: parse_head; default: accept; }
    }
    state parse_head {
        packet.extract(hdr.record_head);
        meta.parser_metadata.remaining = hdr.record_head.count;
        transition select(meta.parser_metadata.remaining) { 0: accept; default: parse_record; }
    }
    state parse_record {
        packet.extract(hdr.records.next);
        meta.parser_metadata.remaining = meta.parser_metadata.remaining - 1;
        transition select(meta.parser_metadata.remaining) { 0: accept; default: parse_record; }
    }
}

control MyVerify(inout headers hdr, inout metadata meta) { apply { } }

control MyIngress(inout headers hdr, inout metadata meta, inout standard_metadata_t sm) {
    action drop() { mark_to_drop(sm); }
    action forward(bit<9> port) { sm.egress_spec = port; hdr.ipv4.ttl = hdr.ipv4.ttl - 1; }
    table routes {
        key = { hdr.ipv4.dst: lpm; }
        actions = { forward; drop; }
        default_action = drop();
    }
    apply { if (hdr.ipv4.isValid()) { routes.apply(); } }
}

control MyEgress(inout headers hdr, inout metadata meta, inout standard_metadata_t sm) {
    action add_record(bit<32> switch_id) {
        hdr.record_head.count = hdr.record_head.count + 1;
        hdr.records.push_front(1);
        hdr.records[0].setValid();
        hdr.records[0].switch_id = switch_id;
        hdr.records[0].depth = (bit<32>)sm.deq_qdepth;
        hdr.ipv4.ihl = hdr.ipv4.ihl + 2;
        hdr.option.length = hdr.option.length + 8;
        hdr.ipv4.total_len = hdr.ipv4.total_len + 8;
    }
    table record {
        actions = { add_record; NoAction; }
        default_action = NoAction();
    }
    apply { if (hdr.record_head.isValid()) { record.apply(); } }
}

control MyCompute(inout headers hdr, inout metadata meta) {
    apply {
        update_checksum(hdr.ipv4.isValid(),
            { hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.diffserv, hdr.ipv4.total_len, hdr.ipv4.id,
              hdr.ipv4.flags, hdr.ipv4.frag, hdr.ipv4.ttl, hdr.ipv4.protocol, hdr.ipv4.src, hdr.ipv4.dst },
            hdr.ipv4.checksum, HashAlgorithm.csum16);
    }
}
control MyDeparser(packet_out packet, in headers hdr) {
    apply {
        packet.emit(hdr.ethernet); packet.emit(hdr.ipv4); packet.emit(hdr.option);
        packet.emit(hdr.record_head); packet.emit(hdr.records);
    }
}

V1Switch(MyParser(), MyVerify(), MyIngress(), MyEgress(), MyCompute(), MyDeparser()) main;
