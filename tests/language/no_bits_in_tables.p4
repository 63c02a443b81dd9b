// feature: `bit<0>` as a table's key, also beside others, and as data of actions (7.1.6.2, 14.2.1.1)
// feature: `varbit<0>` in a header: extracted with size 0, and an error with more (7.1.6.5)
// ends bmv2: it reads the first byte of a key that has none (`bytecontainer.h:180`)
#include "begin.p4"

#define OPTIONAL_WIDTH 0

header in_t { bit<8> op; varbit<0> options; bit<8> a; }
header out_t { bit<8> x; bit<8> y; }

struct headers_t { in_t i; out_t o; }
struct metadata_t { bit<OPTIONAL_WIDTH> none; }

parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta,
             inout standard_metadata_t std) {
    state start {
        transition select(packet.lookahead<bit<8>>()) {
            0xff: too_much;
            default: fits;
        }
    }
    state fits {
        packet.extract(hdr.i, 0);
        transition accept;
    }
    state too_much {
        packet.extract(hdr.i, 8);
        transition accept;
    }
}

control Main(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    action set(bit<8> x, bit<OPTIONAL_WIDTH> extra, bit<8> y) {
        hdr.o.x = x;
        meta.none = extra;
        hdr.o.y = y;
    }
    table alone {
        key = { meta.none: exact; }
        actions = { set; NoAction; }
    }
    table beside {
        key = { hdr.i.a: ternary; meta.none: ternary; hdr.i.op: exact; }
        actions = { set; NoAction; }
    }
    apply {
        std.egress_spec = 1;
        hdr.o = { 0, 0 };
        if (std.parser_error == error.HeaderTooShort) {
            hdr.o.y = 0xee;
        } else if (std.parser_error != error.NoError) {
            hdr.o.y = 0xff;
        } else if (hdr.i.op == 0) {
            alone.apply();
        } else {
            beside.apply();
        }
    }
}

#include "end.p4"
