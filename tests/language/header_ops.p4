// feature: setValid, setInvalid, isValid (8.18); invalid headers in copies and comparisons
// feature: assignment and comparison of headers and structs (8.17, 8.18)
// feature: structs in headers, booleans and signed fields in headers (7.2.2, 7.2.5)
// feature: minSizeInBits, minSizeInBytes, maxSizeInBits, maxSizeInBytes (9)
// feature: emit of headers, stacks and structs; order of emits (16)
// feature: switch on values (12.7.2): fallthrough, default, enum labels
#include "begin.p4"

struct inner_t { bit<4> x; int<4> y; }
enum bit<8> Op { A = 0, B = 1, C = 2, D = 3, E = 4, F = 5, G = 6 }
header in_t { Op op; inner_t inner; bool flag; bit<7> rest; }
header pair_t { bit<8> a; bit<8> b; }
struct group_t { pair_t one; pair_t two; }

struct headers_t { in_t i; group_t g; group_t h; pair_t last; }
struct metadata_t { inner_t kept; }

parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta,
             inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.i);
        transition select(hdr.i.flag) {
            true: more;
            false: accept;
        }
    }
    state more {
        packet.extract(hdr.g.one);
        packet.extract(hdr.g.two);
        transition accept;
    }
}

control Main(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {
        std.egress_spec = 1;
        pair_t local;
        switch (hdr.i.op) {
            Op.A: { }
            Op.B: { hdr.h = hdr.g; hdr.g.one.setInvalid(); }
            Op.C: {
                hdr.last.setValid();
                hdr.last.a = 0;
                hdr.last.b = 0;
                if (hdr.g.one == hdr.g.two) { hdr.last.a = 1; }
                if (hdr.g.one == hdr.h.one) { hdr.last.a[1:1] = 1; }
                if (local == hdr.h.one) { hdr.last.a[2:2] = 1; }
                if (hdr.i.inner == { x = 1, y = -1 }) { hdr.last.a[3:3] = 1; }
                meta.kept = hdr.i.inner;
                if (meta.kept.y < 0) { hdr.last.b = 1; }
            }
            Op.D:
            Op.E: {
                local = { 5, 6 };
                hdr.last = local;
                local.a = 9;
                if (hdr.i.op == Op.E) { hdr.g.two = local; }
            }
            Op.F: {
                hdr.last.setValid();
                hdr.last.a = (bit<8>)hdr.i.minSizeInBytes() + (bit<8>)hdr.last.minSizeInBits();
                hdr.last.b = (bit<8>)hdr.g.one.maxSizeInBits();
                hdr.i.flag = !hdr.i.flag;
                hdr.i.inner.y = -hdr.i.inner.y;
            }
            default: { hdr.i.setInvalid(); hdr.last = hdr.h.two; }
        }
    }
}

#include "end.p4"
