/* A parser whose transitions the controller fills: see test_value_sets.py. Each state says in the last byte where it was. */
#include <core.p4>
#include <v1model.p4>

struct pair_t {
    @match(exact) bit<8> kind;
    @match(ternary) bit<72> label;
}

header first_t {
    bit<16> type;
    bit<8> kind;
    bit<72> label;
    bit<8> seen;
}

struct headers_t {
    first_t first;
}

struct metadata_t {
    bit<8> seen;
}

parser P(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
#ifdef OTHER_SIZE
    value_set<bit<16>>(4) types;
#else
    value_set<bit<16>>(2) types;
#endif
#ifndef NO_PAIRS
    value_set<pair_t>(8) pairs;
#endif
    state start {
        packet.extract(hdr.first);
        transition select(hdr.first.type) {
            0x0800: fixed;
            types: by_type;
            default: other;
        }
    }
    state fixed {
        meta.seen = 1;
        transition accept;
    }
    state by_type {
        meta.seen = 2;
        transition accept;
    }
    state other {
#ifdef NO_PAIRS
        transition nothing;
#else
        transition select(hdr.first.kind, hdr.first.label) {
            pairs: by_pair;
            default: nothing;
        }
#endif
    }
    state by_pair {
        meta.seen = 3;
        transition accept;
    }
    state nothing {
        meta.seen = 4;
        transition accept;
    }
}

control V(inout headers_t hdr, inout metadata_t meta) { apply { } }
control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {
        standard.egress_spec = 1;
        hdr.first.seen = meta.seen;
    }
}
control E(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) { apply { } }
control C(inout headers_t hdr, inout metadata_t meta) { apply { } }
control D(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr.first); } }

V1Switch(P(), V(), I(), E(), C(), D()) main;
