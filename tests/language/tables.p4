// feature: match kinds exact, lpm, ternary, range, optional (14.2.1.1, v1model), with priorities
// feature: table entries in the program (14.2.1.4): const and with priorities, masks, ranges, `_`
// feature: hit, miss and action_run (14.2.2, 12.7.1), fallthrough and default labels
// feature: table applies in expressions (14.2.2), nested, and order of their side effects
// feature: computed keys (14.2.1.1): expressions, function calls, validity, slices
// feature: exit and return in actions that tables run (12.4, 12.5)
// feature: default_action with arguments, actions bound in the action list (14.2.1.2, 14.2.1.3)
#include "begin.p4"

header in_t { bit<8> op; bit<8> a; bit<8> b; }
header out_t { bit<8> x; bit<8> y; bit<8> trace; }

struct headers_t { in_t i; out_t o; }
struct metadata_t { bit<8> left; }

parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta,
             inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.i);
        transition accept;
    }
}

bit<8> doubled(inout bit<8> n) {
    n = n + 1;
    return n * 2;
}

control Main(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    action set(bit<8> x) { hdr.o.x = x; }
    action add(in bit<8> a, bit<8> x) { hdr.o.x = a + x; }
    action keep(inout bit<8> y, bit<8> x) { y = y + x; }
    action quit() { hdr.o.y = 0xee; exit; }
    action leave(bit<8> x) {
        hdr.o.y = 1;
        if (x == 0) { return; }
        hdr.o.y = x;
    }
    action trace(bit<8> bits) { hdr.o.trace = (hdr.o.trace << 2) | bits; }

    table by_exact {
        key = { hdr.i.a: exact; hdr.i.b[3:0]: exact @name("low"); }
        actions = { set; add(hdr.i.b); keep(hdr.o.y); NoAction; }
        default_action = add(hdr.i.b, 0x10);
    }
    table by_lpm {
        key = { hdr.i.a: lpm; }
        actions = { set; }
        default_action = set(0xff);
    }
    table by_ternary {
        key = { hdr.i.a: ternary; hdr.i.b: ternary; }
        actions = { set; @defaultonly NoAction; }
    }
    table by_range {
        key = { hdr.i.a: range; hdr.i.b: exact; }
        actions = { set; NoAction; }
        const entries = {
            (0x18 .. 0x18, 1): set(2);
            (0x10 .. 0x20, 1): set(1);
        }
    }
    table by_optional {
        key = { hdr.i.a: optional; hdr.i.b: optional; }
        actions = { set; NoAction; }
    }
    table fixed {
        key = { hdr.i.a: ternary; hdr.i.b: range; hdr.o.isValid(): exact; }
        actions = { set; NoAction; }
        const entries = {
            (0x10 &&& 0xf0, 5 .. 9, true): set(1);
            (0x11, _, true): set(2);
            (_, 0x80 .. 0xff, true): set(3);
            (0x10 &&& 0x10, _, false): set(4);
        }
    }
    table ranked {
        key = { hdr.i.a: ternary; }
        actions = { set; NoAction; }
        largest_priority_wins = false;
        const default_action = NoAction;
        entries = {
            const priority=30: 0x01 &&& 0x01: set(1);
            const priority=10: 0x03 &&& 0x03: set(3);
            const priority=20: 0x02 &&& 0x02: set(2);
        }
    }
    table leaving {
        key = { hdr.i.a: exact; }
        actions = { quit; leave; NoAction; }
        const entries = { 1: quit(); 2: leave(0); 3: leave(9); }
    }
    table first {
        key = { hdr.i.a: exact; }
        actions = { trace; NoAction; }
        const entries = { 1: trace(1); 3: trace(1); }
    }
    table second {
        key = { doubled(hdr.i.b): exact @name("doubled"); hdr.i.b + 1: exact @name("next"); }
        actions = { trace; NoAction; }
        const entries = { (4, 3): trace(2); }
    }
    table third {
        actions = { trace; }
        default_action = trace(3);
    }
    table fourth {
        key = { hdr.i.a: exact; }
        actions = { trace; NoAction; }
        const entries = { 1: trace(1); 3: trace(1); }
    }
    table fifth {
        key = { doubled(hdr.i.b): exact @name("doubled"); hdr.i.b + 1: exact @name("next"); }
        actions = { trace; NoAction; }
        const entries = { (4, 3): trace(2); }
    }
    table sixth {
        actions = { trace; }
        default_action = trace(3);
    }
    apply {
        std.egress_spec = 1;
        hdr.o = { 0, 0, 0 };
        if (hdr.i.op == 0) { by_exact.apply(); }
        else if (hdr.i.op == 1) { by_lpm.apply(); }
        else if (hdr.i.op == 2) { if (by_ternary.apply().hit) { hdr.o.y = 1; } }
        else if (hdr.i.op == 3) { if (!by_range.apply().hit) { hdr.o.y = 1; } }
        else if (hdr.i.op == 4) { if (by_optional.apply().miss) { hdr.o.y = 1; } }
        else if (hdr.i.op == 5) { fixed.apply(); }
        else if (hdr.i.op == 6) { ranked.apply(); }
        else if (hdr.i.op == 7) { leaving.apply(); hdr.o.trace = 1; }
        else if (hdr.i.op == 8) {
            if (first.apply().hit && second.apply().hit || third.apply().miss) { hdr.o.x = 1; }
        } else if (hdr.i.op == 9) {
            switch (fourth.apply().action_run) {
                trace: {
                    switch (fifth.apply().action_run) {
                        NoAction: { hdr.o.x = 1; }
                        default: { hdr.o.x = 2; sixth.apply(); }
                    }
                }
                NoAction: { hdr.o.x = 3; }
            }
            hdr.o.y = 4;
        }
    }
}

#include "end.p4"
