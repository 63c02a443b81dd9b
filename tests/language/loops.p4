// feature: for loops (12.8): run-time and constant bounds, nested, break, continue
// feature: return in a loop (12.8)
// feature: loops in actions and functions (12.8)
// not with p4c: p4c-bm2-ss 1.2.5 runs the body of a loop in an apply block once at most
#include "begin.p4"

header in_t { bit<8> op; bit<8> n; bit<8> m; }
header out_t { bit<16> x; bit<8> y; }

struct headers_t { in_t i; out_t o; }
struct metadata_t { bit<8> parsed; }

parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta,
             inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.i);
        transition accept;
    }
}

bit<16> sum_to(in bit<8> n) {
    bit<16> sum = 0;
    for (bit<8> i = 1; i <= n; i += 1) {
        sum += (bit<16>)i;
        if (sum > 1000) { return 0xffff; }
    }
    return sum;
}

control Main(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    action count_ones(in bit<8> n) {
        for (bit<8> i = n; i != 0; i = i & (i - 1)) { hdr.o.y = hdr.o.y + 1; }
    }
    apply {
        std.egress_spec = 1;
        hdr.o = { 0, 0 };
        bit<8> n = hdr.i.n;
        bit<8> m = hdr.i.m;
        if (hdr.i.op == 0) {
            for (bit<8> i = 0; i < n; i += 1) { hdr.o.x += (bit<16>)m; }
        } else if (hdr.i.op == 1) {
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
        } else if (hdr.i.op == 3) {
            hdr.o.x = sum_to(n);
        } else if (hdr.i.op == 4) {
            count_ones(n);
        } else if (hdr.i.op == 5) {
            for (bit<8> i = 0, bit<8> j = 10; i < j; i += 1, j -= 2) { hdr.o.y = i; hdr.o.x = (bit<16>)j; }
        }
    }
}

#include "end.p4"
