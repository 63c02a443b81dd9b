// feature: loops with table applies: run-time bounds, nested, break, continue, switch (12.8, 14.2.2)
// feature: return and exit in loops with table applies (12.4, 12.5, 12.8)
// feature: controls with tables applied in loops (12.8, 14.4)
// not with p4c: p4c-bm2-ss 1.2.5 runs the body of a loop in an apply block once at most
#include "begin.p4"

header in_t { bit<8> op; bit<8> n; bit<8> m; }
header out_t { bit<16> x; bit<8> y; }

struct headers_t { in_t i; out_t o; }
struct metadata_t { bit<8> round; }

parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta,
             inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.i);
        transition accept;
    }
}

control Step(inout bit<16> x, in bit<8> round) {
    action add(bit<16> n) { x = x + n; }
    table steps {
        key = { round: exact; }
        actions = { add; NoAction; }
        const entries = { 0: add(0x100); 2: add(0x200); 3: add(0x300); }
    }
    apply {
        if (!steps.apply().hit) {
            x = x + 1;
        }
    }
}

control Main(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    Step() step;

    action add(bit<16> n) { hdr.o.x = hdr.o.x + n; }
    action stop() { }
    action skip() { }
    table rounds {
        key = { meta.round: exact; hdr.i.m: exact; }
        actions = { add; stop; skip; NoAction; }
        const entries = {
            (1, 1): add(0x10);
            (2, 1): skip();
            (4, 1): stop();
            (1, 2): add(0x20);
            (2, 2): add(0x40);
        }
    }
    table pairs {
        key = { meta.round: exact; hdr.o.y: exact; }
        actions = { add; NoAction; }
        const entries = { (1, 0): add(0x1000); (1, 1): add(0x2000); (2, 1): add(0x4000); }
    }

    apply {
        std.egress_spec = 1;
        hdr.o.setValid();
        hdr.o.x = 0;
        hdr.o.y = 0;
        if (hdr.i.op == 0) {
            for (meta.round = 0; meta.round < hdr.i.n; meta.round = meta.round + 1) {
                switch (rounds.apply().action_run) {
                    stop: { break; }
                    skip: { continue; }
                    add: { hdr.o.y = hdr.o.y + 1; }
                    default: { hdr.o.y = hdr.o.y + 0x10; }
                }
                hdr.o.x = hdr.o.x + 1;
            }
            hdr.o.y = hdr.o.y | 0x80;
        } else if (hdr.i.op == 1) {
            for (meta.round = 0; meta.round < hdr.i.n; meta.round = meta.round + 1) {
                for (hdr.o.y = 0; hdr.o.y < meta.round; hdr.o.y = hdr.o.y + 1) {
                    if (pairs.apply().miss) { hdr.o.x = hdr.o.x + 1; }
                }
            }
        } else if (hdr.i.op == 2) {
            for (bit<8> k = 0; k < hdr.i.n; k = k + 1) {
                step.apply(hdr.o.x, k);
                if (k == hdr.i.m) { return; }
                if (hdr.o.x > 0x500) { exit; }
            }
            hdr.o.y = 0x77;
        }
    }
}

#include "end.p4"
