// feature: generic functions, structs and headers (7.2.11, 10)
// feature: generic controls with a body (p4c)
// feature: type inference (8.21) of functions' and externs' type arguments
// feature: controls and parsers with constructor parameters, externs and controls as arguments (15)
// feature: one control instance applied at two places (14.4)
#include "begin.p4"

header in_t { bit<8> op; bit<8> a; bit<16> b; }
header box_t<T> { T value; }
struct pair_t<A, B> { A first; B second; }

struct headers_t { in_t i; box_t<bit<16>> wide; box_t<bit<8>> narrow; }
struct metadata_t { bit<16> h; }

parser Rest(packet_in packet, out headers_t hdr, inout bit<8> op)(bit<8> wanted) {
    state start {
        packet.extract(hdr.i);
        op = hdr.i.op;
        transition select(hdr.i.op) {
            wanted: more;
            default: accept;
        }
    }
    state more {
        packet.extract(hdr.narrow);
        transition accept;
    }
}

parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta,
             inout standard_metadata_t std) {
    Rest(9) rest;
    bit<8> op = 0;
    state start {
        rest.apply(packet, hdr, op);
        meta.h = (bit<16>)op;
        transition accept;
    }
}

T choose<T>(in bool c, in T a, in T b) {
    if (c) { return a; }
    return b;
}

void turn<A, B>(in pair_t<A, B> p, out pair_t<B, A> turned) {
    turned = { p.second, p.first };
}

control Least<T>(inout T a, in T b)(T low, bit<8> mode) {
    apply {
        T before = a;
        a = mode == 0 ? low : b;
        if (mode == 2) { a = before; }
    }
}

control Turned<T>(inout T a, inout T b)(T low, bit<8> least_wanted) {
    Least<T>(low, 1) least;
    Least<T>(low, 0) lowest;
    apply {
        T kept = a;
        least.apply(a, b);
        b = kept;
        if (least_wanted == 0) { lowest.apply(b, kept); }
    }
}

control Counted(inout bit<16> total)(register<bit<16>> memory, bit<32> cell) {
    apply {
        memory.read(total, cell);
        total = total + 1;
        memory.write(cell, total);
    }
}

control Add(inout bit<16> a, in bit<16> b)(bit<16> more) {
    apply { a = a + b + more; }
}

control Main(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    register<bit<16>>(4) memory;
    Counted(memory, 1) one;
    Counted(memory, 2) two;
    Add(0x100) add;
    Turned<bit<16>>(0x77, 0) turned_wide;
    Turned<bit<8>>(0x33, 1) turned_narrow;
    apply {
        std.egress_spec = 1;
        hdr.wide.setValid();
        if (hdr.i.op == 0) {
            hdr.wide.value = choose(hdr.i.a > 5, hdr.i.b, 16w7);
            hdr.i.a = choose<bit<8>>(hdr.i.a > 5, 1, 2);
        } else if (hdr.i.op == 1) {
            pair_t<bit<8>, bit<16>> p = { hdr.i.a, hdr.i.b };
            pair_t<bit<16>, bit<8>> q;
            turn(p, q);
            hdr.wide.value = q.first;
            turn(q, p);
            hdr.narrow = { choose(true, p, p).first };
        } else if (hdr.i.op == 2) {
            one.apply(hdr.wide.value);
        } else if (hdr.i.op == 3) {
            two.apply(hdr.wide.value);
        } else if (hdr.i.op == 4) {
            hdr.wide.value = hdr.i.b;
            add.apply(hdr.wide.value, 1);
            if (hdr.i.a == 1) {
                add.apply(hdr.wide.value, hdr.wide.value);
            }
        } else if (hdr.i.op == 5) {
            hash(hdr.wide.value, HashAlgorithm.csum16, 16w0, { hdr.i.b }, 32w65536);
        } else if (hdr.i.op == 6) {
            hdr.wide.value = 5;
            turned_wide.apply(hdr.i.b, hdr.wide.value);
            bit<8> low = hdr.wide.value[7:0];
            turned_narrow.apply(hdr.i.a, low);
            hdr.narrow = { low };
        } else {
            hdr.wide.value = meta.h;
        }
    }
}

#include "end.p4"
