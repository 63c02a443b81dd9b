// feature: header stacks (8.19): next, last, lastIndex, size, constant and run-time index
// feature: header stacks (8.19): push_front, pop_front, assignment, out of bounds in the parser
#include "begin.p4"

header op_t { bit<8> op; bit<8> index; }
header item_t { bit<7> value; bit<1> bottom; }
header last_t { bit<32> index; bit<8> value; }

struct headers_t {
    op_t      op;
    item_t[4] items;
    last_t    last;
    item_t[2] pair;
}
struct metadata_t { }

parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta,
             inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.op);
        transition select(hdr.op.op) {
            0xff: accept;
            default: items;
        }
    }
    state items {
        packet.extract(hdr.items.next);
        transition select(hdr.items.last.bottom) {
            0: items;
            default: done;
        }
    }
    state done {
        hdr.last.setValid();
        hdr.last.index = hdr.items.lastIndex;
        hdr.last.value = (bit<8>)hdr.items.last.value;
        transition accept;
    }
}

control Main(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {
        std.egress_spec = 1;
        bit<32> i = (bit<32>)hdr.op.index;
        if (std.parser_error == error.StackOutOfBounds) {
            std.egress_spec = 2;
        }
        switch (hdr.op.op) {
            1: { hdr.items.push_front(1); }
            2: { hdr.items.push_front(3); hdr.items[0] = { 0x7f, 0 }; }
            3: { hdr.items.pop_front(1); }
            4: { hdr.items.pop_front(4); }
            5: { hdr.items[i].value = 0x11; }
            6: { hdr.items[0].value = hdr.items[i].value; }
            8: { hdr.items[i].setInvalid(); }
            9: { hdr.last.index = hdr.items.size; }
            11: { hdr.pair[1] = hdr.items[i]; hdr.pair[0] = hdr.items[3]; }
            12: {
                item_t[4] copy = hdr.items;
                copy[0].value = 0x22;
                hdr.items[3] = copy[0];
                hdr.items[2] = copy[1];
            }
        }
    }
}

#include "end.p4"
