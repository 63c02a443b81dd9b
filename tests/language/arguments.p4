// feature: slices, stack elements and struct members as inout arguments (6.8)
// feature: run-time indices evaluated once, before the call (6.8, 8.1)
// feature: headers, stacks and structs as arguments and results (6.8, 10)
#include "begin.p4"

header in_t { bit<8> op; bit<8> a; bit<8> b; bit<8> c; }
header item_t { bit<8> v; bit<8> w; }
struct both_t { item_t x; item_t y; bit<8> n; }

struct headers_t { in_t i; item_t[3] items; item_t extra; }
struct metadata_t { both_t both; bit<8> left; }

parser Items(packet_in packet, inout item_t[3] items, in bit<8> count, out item_t extra) {
    state start {
        packet.extract(items.next);
        packet.extract(items.next);
        transition select(count) {
            3: one_more;
            default: accept;
        }
    }
    state one_more {
        packet.extract(extra);
        transition accept;
    }
}

parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta,
             inout standard_metadata_t std) {
    Items() items;
    state start {
        packet.extract(hdr.i);
        items.apply(packet, hdr.items, hdr.i.c, hdr.extra);
        transition accept;
    }
}

void bump(inout bit<4> n, inout bit<8> m) {
    n = n + 1;
    m = m + (bit<8>)n;
    n = n + 1;
}

item_t swapped(in item_t h) {
    item_t result = h;
    result.v = h.w;
    result.w = h.v;
    return result;
}

void rotate(inout item_t[3] items) {
    item_t first = items[0];
    items.pop_front(1);
    items[2] = first;
}

bit<8> next(inout bit<8> n) {
    n = n + 1;
    return n;
}

control Change(inout both_t both, in item_t given, out item_t taken) {
    apply {
        taken = both.x;
        both.x = given;
        both.n = both.n + given.v;
        if (!both.y.isValid()) {
            both.y = { 0x77, both.n };
        } else {
            both.y.setInvalid();
        }
    }
}

control Main(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    Change() change;
    action set_item(inout item_t h, in bit<8> v) {
        h.v = v;
        hdr.i.a = hdr.i.a + 1;
        h.w = hdr.i.a;
    }
    action move(inout bit<8> index, inout bit<8> target) {
        index = index + 1;
        target = target + 0x10;
    }
    apply {
        std.egress_spec = 1;
        bit<8> a = hdr.i.a;
        if (hdr.i.op == 1) {
            bump(hdr.i.b[7:4], hdr.i.c);
            bump(hdr.i.b[3:0], hdr.i.b);
        } else if (hdr.i.op == 2) {
            set_item(hdr.items[1], hdr.i.b);
        } else if (hdr.i.op == 3) {
            move(a, hdr.items[a].v);
            hdr.i.b = a;
        } else if (hdr.i.op == 4) {
            hdr.items[next(a)].v = next(a);
            hdr.i.b = a;
        } else if (hdr.i.op == 5) {
            hdr.items[0] = swapped(hdr.items[0]);
            hdr.extra = swapped(swapped(hdr.items[1]));
        } else if (hdr.i.op == 6) {
            rotate(hdr.items);
        } else if (hdr.i.op == 7) {
            meta.both = { hdr.items[0], (item_t){#}, 1 };
            change.apply(meta.both, hdr.items[1], hdr.extra);
            hdr.items[0] = meta.both.y;
            hdr.i.b = meta.both.n;
        } else if (hdr.i.op == 8) {
            item_t chosen = hdr.i.b == 0 ? hdr.items[0] : hdr.items[1];
            hdr.extra = chosen;
            hdr.items[1].v[7:4] = next(a)[3:0];
        } else if (hdr.i.op == 9) {
            bit<8> total = a + next(a) * 2 + a + next(a);
            hdr.i.b = total;
            hdr.i.c = a;
        }
    }
}

#include "end.p4"
