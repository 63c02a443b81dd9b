// feature: saturating arithmetic (8.7, 8.8): |+| and |-| of bit and int
// feature: signed arithmetic (8.8): + - * comparison, negation, arithmetic shift
// feature: shifts by run-time amounts (8.10.2), also by more than the width
// feature: concatenation (8.10.1)
// feature: mux (8.5.1)
#include "begin.p4"

header in_t { bit<8> op; bit<16> a; bit<16> b; bit<8> n; }
header out_t { bit<16> u; bit<16> s; bit<8> flags; bit<32> wide; }

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
    apply {
        std.egress_spec = 1;
        hdr.o.setValid();
        hdr.o.flags = 0;
        hdr.o.wide = 0;
        bit<16> a = hdr.i.a;
        bit<16> b = hdr.i.b;
        int<16> x = (int<16>)a;
        int<16> y = (int<16>)b;
        int<16> s = 0;
        switch (hdr.i.op) {
            0: { hdr.o.u = a + b; s = x + y; }
            1: { hdr.o.u = a - b; s = x - y; }
            2: { hdr.o.u = a * b; s = x * y; }
            3: { hdr.o.u = a |+| b; s = x |+| y; }
            4: { hdr.o.u = a |-| b; s = x |-| y; }
            5: { hdr.o.u = a << hdr.i.n; s = x << hdr.i.n; }
            6: { hdr.o.u = a >> hdr.i.n; s = x >> hdr.i.n; }
            7: { hdr.o.u = -a; s = -x; }
            8: { hdr.o.u = ~a; s = ~x; }
            9: { hdr.o.u = a & b; s = x ^ y; }
            10: { hdr.o.u = a | b; s = x | y; }
            11: { hdr.o.u = a < b ? a : b; s = x < y ? x : y; }
            12: { hdr.o.u = a[11:4] ++ b[7:0]; s = (int<16>)(x[7:0] ++ y[15:8]); hdr.o.wide = a ++ b; }
            13: { hdr.o.u = (bit<16>)a[7:0]; s = (int<16>)(int<8>)x; hdr.o.wide = (bit<32>)(int<32>)x; }
            14: { hdr.o.u = a / 16; s = (int<16>)(a % 16); hdr.o.wide = (bit<32>)(a / 8 * 8); }
            15: { hdr.o.u = (a + b) >> 1; s = (x + y) >> 1; hdr.o.wide = ((bit<32>)a + (bit<32>)b) >> 1; }
            16: { hdr.o.u = (bit<16>)(a - b > 5 ? 16w1 : 0); s = (x - y) * 2 - 1; }
            17: { hdr.o.u = a |-| b |+| 1; s = -(x |-| y); hdr.o.wide = (bit<32>)(a * b); }
            18: { hdr.o.u = (16w1 << hdr.i.n) - 16w1; s = 16s1 << hdr.i.n; hdr.o.wide = 32w1 << hdr.i.n; }
        }
        hdr.o.s = (bit<16>)s;
        if (a < b) { hdr.o.flags = hdr.o.flags | 1; }
        if (x < y) { hdr.o.flags = hdr.o.flags | 2; }
        if (x >= y) { hdr.o.flags = hdr.o.flags | 4; }
        if (a == b || !(x != y)) { hdr.o.flags = hdr.o.flags | 8; }
        if (x <= 0 && s > -1) { hdr.o.flags = hdr.o.flags | 16; }
    }
}

#include "end.p4"
