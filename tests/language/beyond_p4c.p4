// feature: isValid of a stack's element at a run-time index (8.19)
// feature: assignment between elements at run-time indices (8.19)
// feature: slices of signed values as targets (8.8)
// feature: validity and comparison of header unions in stacks (8.20)
// feature: elements at run-time indices as inout arguments (6.8)
// feature: extract into a stack's element at a run-time index (13.8.1)
// not with p4c: what p4c-bm2-ss 1.2.5 writes for these does not load in BMv2
#include "begin.p4"

header op_t { bit<8> op; bit<8> index; }
header one_t { bit<8> a; }
header two_t { bit<16> b; }
header_union either_t { one_t one; two_t two; }
header seen_t { bit<8> flags; }

struct headers_t {
    op_t        op;
    one_t[3]    items;
    either_t[3] unions;
    either_t    other;
    seen_t      seen;
}
struct metadata_t { }

parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta,
             inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.op);
        packet.extract(hdr.items.next);
        if (hdr.op.op == 5) {
            packet.extract(hdr.items[hdr.op.index]);
        } else {
            packet.extract(hdr.items.next);
        }
        packet.extract(hdr.unions.next.one);
        packet.extract(hdr.unions.next.two);
        transition accept;
    }
}

control Main(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    action add_one(inout one_t item) {
        item.a = item.a + 1;
        hdr.op.index = 0;
    }
    apply {
        std.egress_spec = 1;
        hdr.seen.setValid();
        hdr.seen.flags = 0;
        bit<8> i = hdr.op.index;
        if (hdr.op.op == 1) { hdr.unions[2] = hdr.unions[0]; }
        if (hdr.op.op == 2) { hdr.other = hdr.unions[1]; }
        if (hdr.op.op == 3) { hdr.items[i + 1] = hdr.items[i]; }
        if (hdr.op.op == 4) {
            int<8> s = 0x7f;
            s[3:1] = 0;
            hdr.items[0].a = (bit<8>)s;
        }
        if (hdr.op.op == 6) { add_one(hdr.items[hdr.op.index]); }
        if (hdr.items[i].isValid()) { hdr.seen.flags[0:0] = 1; }
        if (hdr.unions[2].isValid()) { hdr.seen.flags[1:1] = 1; }
        if (hdr.unions[0] == hdr.unions[2]) { hdr.seen.flags[2:2] = 1; }
        if (hdr.unions[1] == hdr.other) { hdr.seen.flags[3:3] = 1; }
        if (hdr.other == hdr.unions[2]) { hdr.seen.flags[4:4] = 1; }
    }
}

#include "end.p4"
