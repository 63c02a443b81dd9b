// feature: controls in the deparser and in checksum controls (14.4)
// feature: slices with a position and a width, [low+:width] (8.7)
// feature: select on signed numbers, with ranges (13.6)
// feature: lists among the keys of select (13.6)
// feature: several `value_set`s, and cases without any (13.11)
#include "begin.p4"

header in_t { bit<8> op; int<8> a; bit<16> b; bit<16> sum; }
header mark_t { bit<8> state; }

struct headers_t { in_t i; mark_t mark; in_t second; }
struct metadata_t { bit<8> state; }

parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta,
             inout standard_metadata_t std) {
    value_set<bit<8>>(4) ops;
    value_set<bit<16>>(4) others;
    state start {
        packet.extract(hdr.i);
        meta.state = 0;
        transition select(hdr.i.op) {
            ops: accept;
            1: signed;
            2: second;
            default: accept;
        }
    }
    state signed {
        transition select(hdr.i.a, hdr.i.b) {
            (-5 .. 3, 1): small;
            (100 .. 127, _): great;
            default: negative;
        }
    }
    state negative {
        transition select(hdr.i.a) {
            -128 .. -120: least;
            default: listed;
        }
    }
    state listed {
        transition select(hdr.i.op, { hdr.i.b[15:8], hdr.i.b[7:0] }) {
            (1, { 0x12, 0x34 }): in_list;
            (1, _): accept;
            (_, { 0, 0 }): small;
        }
    }
    state in_list { meta.state = 4; transition accept; }
    state small { meta.state = 1; transition accept; }
    state least { meta.state = 2; transition accept; }
    state great { meta.state = 3; transition accept; }
    state second {
        packet.extract(hdr.second);
        transition select(hdr.second.b) {
            others: accept;
            default: small;
        }
    }
}

control Main(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {
        std.egress_spec = 1;
        hdr.mark = { meta.state };
        if (hdr.i.op == 3) {
            hdr.mark.state = hdr.i.b[4+:8];
            hdr.i.b[2+:5] = 0x1f;
            hdr.i.b[8+:4][1+:2] = 0;
        }
    }
}

control SumOf(inout in_t i, in bool wanted) {
    apply {
        update_checksum(wanted && i.isValid(), { i.op, i.a, i.b }, i.sum, HashAlgorithm.csum16);
    }
}

control Sums(inout headers_t hdr, inout metadata_t meta) {
    SumOf() first;
    SumOf() second;
    apply {
        first.apply(hdr.i, hdr.i.op == 4);
        second.apply(hdr.second, true);
    }
}

control EmitRest(packet_out packet, in headers_t headers) {
    apply {
        packet.emit(headers.second);
        packet.emit(headers.mark);
    }
}

control EmitParts(packet_out packet, in headers_t hdr) {
    EmitRest() rest;
    apply {
        packet.emit(hdr.i);
        rest.apply(packet, hdr);
    }
}

#define COMPUTE Sums
#define DEPARSER EmitParts
#include "end.p4"
