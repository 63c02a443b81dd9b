// Values that may not be set and headers that may not be there.
#include <core.p4>
#include <v1model.p4>

header tag_t { bit<8> kind; bit<8> level; }
struct headers_t { tag_t outer; tag_t inner; tag_t[2] stack; }
struct meta_t { bit<8> level; }

parser P(packet_in packet, out headers_t hdr, inout meta_t meta,
         inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.outer);
        transition select(hdr.outer.kind) {
            1: both;
            2: early;
            default: accept;
        }
    }
    state both {
        packet.extract(hdr.inner);
        transition done;
    }
    state early {
        meta.level = hdr.inner.level; // warns: invalid-header, uninitialized-use
        transition done;
    }
    state done {
        meta.level = hdr.inner.kind; // warns: invalid-header, uninitialized-use
        transition accept;
    }
}

bit<8> half(out bit<8> rest, in bit<8> value) { // warns: uninitialized-out-param, uninitialized-use*
    if (value > 1) { rest = value & 1; }
    return value >> 1;
}

control I(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    bit<8> level;
    tag_t local;
    action swap(inout bit<8> a, inout bit<8> b) {
        bit<8> t = a;
        a = b;
        b = t;
    }
    action drop_inner() { hdr.inner.setInvalid(); }
    table t {
        key = { hdr.outer.kind: exact; }
        actions = { drop_inner; NoAction; }
    }
    apply {
        if (meta.level == 1) {
            level = 3;
        }
        hdr.outer.level = level; // warns: uninitialized-use
        local.kind = 4; // warns: invalid-header
        local.setValid();
        hdr.outer.kind = local.level; // warns: uninitialized-use
        if (hdr.inner.isValid()) {
            hdr.inner.level = 1;
        }
        swap(hdr.outer.kind, hdr.outer.level);
        swap(hdr.outer.kind, hdr.outer.kind); // warns: ordering
        drop_inner();
        hdr.inner.kind = half(meta.level, 7); // warns: invalid-header
        t.apply();
        if (std.ingress_port == 1) { hdr.stack[0].setValid(); }
        else { hdr.stack[0].setInvalid(); }
        hdr.stack[0].kind = 1; // warns: invalid-header
    }
}

control C(inout headers_t hdr, inout meta_t meta) { apply { } }
control E(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) { apply { } }
control D(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr); } }
V1Switch(P(), C(), I(), E(), C(), D()) main;
