// feature: loops in actions (12.8), nested, with break and continue
#include "begin.p4"

header in_t { bit<8> op; bit<8> n; bit<8> m; }
header out_t { bit<16> x; bit<8> y; }

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
    action product(in bit<8> n, in bit<8> m) {
        for (bit<8> i = 0; i < n; i += 1) { hdr.o.x += (bit<16>)m; }
    }
    action pairs(in bit<8> n, in bit<8> m) {
        for (bit<8> i = 0; i < n; i += 1) {
            if (i == 3) { continue; }
            if (i == m) { break; }
            for (bit<8> j = 0; j <= i; j += 1) {
                if (j == 2) { continue; }
                if (j == 5) { break; }
                hdr.o.x += 1;
            }
            hdr.o.y = i;
        }
    }
    action ones(in bit<8> n) {
        for (bit<8> i = n; i != 0; i = i & (i - 1)) { hdr.o.y = hdr.o.y + 1; }
    }
    apply {
        std.egress_spec = 1;
        hdr.o = { 0, 0 };
        if (hdr.i.op == 0) {
            product(hdr.i.n, hdr.i.m);
        } else if (hdr.i.op == 1) {
            pairs(hdr.i.n, hdr.i.m);
        } else if (hdr.i.op == 4) {
            ones(hdr.i.n);
        }
    }
}

#include "end.p4"
