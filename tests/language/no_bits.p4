// feature: `bit<0>` (7.1.6.2): fields of headers and structs, variables, concatenation
#include "begin.p4"

#define OPTIONAL_WIDTH 0

header in_t { bit<8> op; bit<OPTIONAL_WIDTH> extra; bit<8> a; }
header item_t { bit<8> v; bit<0> nothing; }
struct none_t { bit<0> z; bit<8> x; }

struct headers_t { in_t i; item_t[2] items; }
struct metadata_t { bit<0> m; none_t none; }

parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta,
             inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.i);
        meta.m = hdr.i.extra;
        packet.extract(hdr.items.next);
        packet.extract(hdr.items.next);
        transition accept;
    }
}

control Main(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {
        std.egress_spec = 1;
        bit<0> z = 0;
        meta.none = { z, hdr.i.a };
        hdr.items[0].nothing = meta.none.z;
        if (hdr.i.op == 1) {
            hdr.i = { 2, 0, meta.none.x + 1 };
        } else if (hdr.i.op == 2) {
            hdr.items[1] = hdr.items[0];
        } else if (hdr.i.op == 3) {
            hdr.items[0].v = z ++ hdr.i.a;
        }
    }
}

#include "end.p4"
