// feature: for-in through ranges, lists and stacks (12.8): with the values from before the loop
// feature: for-in (12.8): writes to its variable, break, continue, return
// not with p4c: p4c-bm2-ss 1.2.5 refuses every for-in
#include "begin.p4"

header in_t { bit<8> op; bit<8> a; bit<8> b; }
header each_t { bit<8> v; }
header out_t { bit<8> sum; bit<8> rounds; }
struct pair_t { bit<8> x; bit<8> y; }

struct headers_t { in_t i; each_t[3] s; out_t o; }
struct metadata_t { }

parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta,
             inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.i);
        packet.extract(hdr.s.next);
        packet.extract(hdr.s.next);
        transition accept;
    }
}

bit<8> first_above(in each_t[3] from, in bit<8> least) {
    for (each_t each in from) {
        if (each.isValid() && each.v > least) { return each.v; }
    }
    return 0;
}

control Main(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    action sum(inout bit<8> element) {
        element = 1;
        for (each_t each in hdr.s) {
            if (each.isValid()) { hdr.o.sum = hdr.o.sum + each.v; }
        }
    }
    apply {
        std.egress_spec = 1;
        hdr.o.setValid();
        hdr.o.sum = 0;
        hdr.o.rounds = 0;
        if (hdr.i.op == 0) {
            for (bit<8> n in 3 .. 6) {
                n = n + 1;
                hdr.o.rounds = hdr.o.rounds + 1;
                if (n == 5) { continue; }
                hdr.o.sum = hdr.o.sum + n;
                if (n == 6) { break; }
            }
        } else if (hdr.i.op == 1) {
            for (bit<8> n in (list<bit<8>>){ hdr.i.a, hdr.i.b, 7 }) {
                hdr.i.a = 0x11;
                hdr.i.b = 0x22;
                hdr.o.sum = hdr.o.sum + n;
            }
        } else if (hdr.i.op == 2) {
            for (pair_t pair in (list<pair_t>){ { 1, hdr.i.a }, { 2, hdr.i.b } }) {
                pair.x = pair.x << 4;
                hdr.o.sum = hdr.o.sum + pair.x + pair.y;
            }
        } else if (hdr.i.op == 3) {
            for (each_t each in hdr.s) {
                each.v = each.v + 1;
                hdr.s[1].v = 0;
                if (each.isValid()) { hdr.o.sum = hdr.o.sum + each.v; }
                hdr.o.rounds = hdr.o.rounds + 1;
            }
        } else if (hdr.i.op == 4) {
            sum(hdr.s[0].v);
        } else {
            hdr.o.sum = first_above(hdr.s, hdr.i.a);
        }
    }
}

#include "end.p4"
