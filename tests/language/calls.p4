// feature: functions (10): return anywhere, in, out and inout parameters, named and default arguments
// feature: copy-in and copy-out (6.8): arguments that overlap, in actions, functions and controls
// feature: order of side effects (6.8, 8.1): left to right, short circuits, mux
// feature: don't-care arguments (8.21)
// feature: exit and return (12.4, 12.5) at every depth, with what is copied out
// feature: actions called directly (14.1), from actions too
#include "begin.p4"

header in_t { bit<8> op; bit<8> a; bit<8> b; }
header out_t { bit<8> x; bit<8> y; bit<8> trace; }

struct headers_t { in_t i; out_t o; }
struct metadata_t { bit<8> left; bit<8> right; }

parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta,
             inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.i);
        transition accept;
    }
}

bit<8> largest(in bit<8> a, in bit<8> b) {
    if (a > b) { return a; }
    return b;
}

bit<8> step(inout bit<8> n) {
    n = n + 1;
    return n;
}

bool note(inout bit<8> trace, in bit<8> bits, in bool result) {
    trace = (trace << 2) | bits;
    return result;
}

void swap(inout bit<8> a, inout bit<8> b) {
    bit<8> kept = a;
    a = b;
    b = kept;
}

bit<8> scaled(in bit<8> a, in bit<8> by = 3) { return a * by; }

void both(out bit<8> low, out bit<8> high, in bit<16> value) {
    low = value[7:0];
    high = value[15:8];
}

control Half(inout bit<8> a, in bit<8> b, out bit<8> c) {
    apply {
        a = a + 1;
        c = a + b;
        if (b == 0xee) { return; }
        a = a + 1;
        c = c + 1;
    }
}

control Quit(inout bit<8> a, in bit<8> b, out bit<8> c) {
    apply {
        a = a + 2;
        c = a + b - 1;
        if (b == 0xdd) { exit; }
        c = 0;
    }
}

control Main(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    Half() half;
    Quit() quit;
    action add_twice(inout bit<8> a, inout bit<8> b, in bit<8> c) {
        a = a + c;
        b = b + c;
        hdr.o.trace = hdr.o.trace + 1;
        a = a + c;
    }
    action early(inout bit<8> a) {
        a = 5;
        if (hdr.i.b == 1) { return; }
        a = 6;
        a = 7;
    }
    action outer(inout bit<8> a) {
        early(a);
        a = a + 0x10;
    }
    action set_y(out bit<8> y) {
        if (hdr.i.b == 0) { y = hdr.o.x; return; }
        y = 1;
    }
    apply {
        std.egress_spec = 1;
        hdr.o = { 0, 0, 0 };
        bit<8> a = hdr.i.a;
        bit<8> b = hdr.i.b;
        if (hdr.i.op == 0) {
            hdr.o.x = largest(a, b);
            hdr.o.y = largest(largest(b, 7), largest(b = a, a = 9));
            hdr.o.trace = scaled(a) + scaled(by = 2, a = b);
        } else if (hdr.i.op == 1) {
            hdr.o.x = step(a) + step(a) * 2 + a;
            hdr.o.y = a;
        } else if (hdr.i.op == 2) {
            if (note(hdr.o.trace, 1, a == 1) && note(hdr.o.trace, 2, b == 1)
                || note(hdr.o.trace, 3, true)) { hdr.o.x = 1; }
            hdr.o.y = note(hdr.o.trace, 1, a == 2) ? step(hdr.o.trace) : step(hdr.o.x);
        } else if (hdr.i.op == 3) {
            add_twice(a, a, 3);
            hdr.o.x = a;
            add_twice(hdr.o.trace, b, hdr.o.trace + 2);
            hdr.o.y = b;
        } else if (hdr.i.op == 4) {
            hdr.o.x = 1;
            early(hdr.o.x);
            hdr.o.y = 1;
        } else if (hdr.i.op == 5) {
            outer(hdr.o.x);
            hdr.o.y = 1;
        } else if (hdr.i.op == 6) {
            half.apply(hdr.o.x, b, hdr.o.y);
            if (b == 0xdd) {
                hdr.o.x = 0;
                quit.apply(hdr.o.x, b, hdr.o.y);
            }
            hdr.o.trace = 1;
        } else if (hdr.i.op == 7) {
            half.apply(a, a, a);
            hdr.o.x = a;
            half.apply(b, 0xee, _);
            hdr.o.y = b;
        } else if (hdr.i.op == 8) {
            swap(hdr.i.a, hdr.i.b);
            both(_, a, a ++ b);
            hdr.o.x = a;
            both(low = hdr.o.y, high = _, value = 0x1234);
        } else if (hdr.i.op == 9) {
            hdr.o.x = 0x44;
            set_y(hdr.o.y);
            swap(hdr.o.x, hdr.o.y);
        }
        if (hdr.i.op == 0xff) { return; }
        hdr.o.trace = hdr.o.trace | 0x80;
    }
}

#include "end.p4"
