// feature: exit in actions called directly (12.5), with what is copied out
// not with p4c: p4c-bm2-ss 1.2.5 loses what the action wrote to its inout parameter
#include "begin.p4"

header in_t { bit<8> op; bit<8> b; }
header out_t { bit<8> x; bit<8> y; }

struct headers_t { in_t i; out_t o; }
struct metadata_t { }

parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta,
             inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.i);
        transition accept;
    }
}

control Main(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    action early(inout bit<8> a) {
        a = 5;
        if (hdr.i.b == 1) { return; }
        a = 6;
        if (hdr.i.b == 2) { exit; }
        a = 7;
    }
    action outer(inout bit<8> a) {
        early(a);
        a = a + 0x10;
    }
    apply {
        std.egress_spec = 1;
        hdr.o = { 0, 0 };
        if (hdr.i.op == 4) {
            early(hdr.o.x);
        } else {
            outer(hdr.o.x);
        }
        hdr.o.y = 1;
    }
}

#include "end.p4"
