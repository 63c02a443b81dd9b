// feature: header unions (8.20): one member valid at a time, setValid, assignment, emit
// feature: header union stacks (8.20): extract by next, constant index, also by a variable
#include "begin.p4"

header kind_t { bit<8> kind; bit<8> op; }
header short_t { bit<8> a; }
header long_t { bit<16> b; bit<16> c; }
header_union body_t { short_t s; long_t l; }
header tail_t { bit<8> valid; }

struct headers_t {
    kind_t    kind;
    body_t    body;
    body_t[2] more;
    tail_t    tail;
}
struct metadata_t { }

parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta,
             inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.kind);
        transition select(hdr.kind.kind) {
            1: small;
            2: large;
            3: several;
            default: accept;
        }
    }
    state small {
        packet.extract(hdr.body.s);
        transition accept;
    }
    state large {
        packet.extract(hdr.body.l);
        transition accept;
    }
    state several {
        packet.extract(hdr.more.next.s);
        packet.extract(hdr.more.next.l);
        transition accept;
    }
}

control Main(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    body_t other;
    apply {
        bit<8> from = 1;
        std.egress_spec = 1;
        hdr.tail.setValid();
        hdr.tail.valid = 0;
        if (hdr.kind.op == 1) {
            hdr.body.l.setValid();
            hdr.body.l.b = 0x1111;
            hdr.body.l.c = 0x2222;
        } else if (hdr.kind.op == 2) {
            hdr.body.s = { 0x77 };
        } else if (hdr.kind.op == 3) {
            other = hdr.body;
            hdr.body.s.setInvalid();
            hdr.body.l.setInvalid();
            hdr.more[1] = other;
        } else if (hdr.kind.op == 4) {
            hdr.more[0] = hdr.more[from];
        } else if (hdr.kind.op == 5) {
            hdr.more[0].l = { 0xaaaa, 0xbbbb };
            hdr.more[1].s = hdr.body.s;
        }
        if (hdr.body.isValid()) { hdr.tail.valid = hdr.tail.valid | 1; }
        if (hdr.body.s.isValid()) { hdr.tail.valid = hdr.tail.valid | 2; }
        if (hdr.body.l.isValid()) { hdr.tail.valid = hdr.tail.valid | 4; }
        if (hdr.more[0].l.isValid()) { hdr.tail.valid = hdr.tail.valid | 16; }
        if (hdr.more[1].s.isValid()) { hdr.tail.valid = hdr.tail.valid | 32; }
    }
}

#include "end.p4"
