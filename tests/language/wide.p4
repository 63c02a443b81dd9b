// feature: widths over 64 bits (7.1.6.2): all operations on `bit<100>`
// feature: widths over 128 bits (7.1.6.2): all operations on `bit<200>` and `int<200>`
#include "begin.p4"

header in_t { bit<8> op; bit<200> a; bit<200> b; bit<8> n; }
header out_t { bit<200> u; bit<104> m; bit<8> flags; }

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
        bit<200> a = hdr.i.a;
        bit<200> b = hdr.i.b;
        int<200> x = (int<200>)a;
        int<200> y = (int<200>)b;
        bit<100> p = a[99:0];
        bit<100> q = b[99:0];
        bit<200> u = 0;
        bit<100> m = 0;
        switch (hdr.i.op) {
            0: { u = a + b; m = p + q; }
            1: { u = a - b; m = p - q; }
            2: { u = a * b; m = p * q; }
            3: { u = a |+| b; m = p |+| q; }
            4: { u = a |-| b; m = p |-| q; }
            5: { u = a << hdr.i.n; m = p << hdr.i.n; }
            6: { u = a >> hdr.i.n; m = p >> hdr.i.n; }
            7: { u = -a; m = ~p; }
            8: { u = a & b; m = p ^ q; }
            9: { u = (bit<200>)(x >> hdr.i.n); m = (bit<100>)((int<100>)p >> hdr.i.n); }
            10: { u = (bit<200>)(x |+| y); m = (bit<100>)((int<100>)p |-| (int<100>)q); }
            11: { u = p ++ q; m = a[199:150] ++ b[49:0]; }
            12: { u = (bit<200>)(int<200>)(int<100>)p; m = (bit<100>)(a > b ? a : b); }
            13: { u[150:51] = p; u[50:0] = b[50:0]; m[99:98] = 3; m[0:0] = 1; }
            14: { u = (bit<200>)(x * y); m = (p |+| q) >> 1; }
        }
        hdr.o.u = u;
        hdr.o.m = (bit<104>)m;
        if (a < b) { hdr.o.flags = hdr.o.flags | 1; }
        if (x < y) { hdr.o.flags = hdr.o.flags | 2; }
        if (p >= q) { hdr.o.flags = hdr.o.flags | 4; }
        if (a == b || (int<100>)p > (int<100>)q) { hdr.o.flags = hdr.o.flags | 8; }
    }
}

#include "end.p4"
