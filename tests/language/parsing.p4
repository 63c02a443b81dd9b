// feature: select (13.6): masks, ranges, several keys, tuples, enums, default
// feature: lookahead and advance (13.8.3, 13.8.4) of bits, structs and headers
// feature: verify and user errors (13.7); parser errors as v1model reports them
// feature: sub-parsers with arguments (13.10), applied at two places
// feature: variables, functions, conditions and assignments in parsers (13.4)
#include "begin.p4"

error { Odd, Late }
enum bit<8> Kind { Plain = 1, Deep = 2, Pair = 3, Skip = 4, Check = 5, Peek = 6, Sub = 7, Cond = 8 }

header in_t { Kind kind; bit<8> a; }
header deep_t { bit<4> x; bit<4> y; bit<8> z; }
header mark_t { bit<8> state; bit<8> error_number; bit<16> seen; }
struct peek_t { bit<4> high; bit<12> low; }

struct headers_t { in_t i; deep_t[3] deep; mark_t mark; }
struct metadata_t { bit<8> state; bit<16> seen; }

bit<8> next_state(in bit<8> n) { return n + 1; }

parser Deep(packet_in packet, out deep_t deep, inout bit<16> seen, in bit<4> wanted) {
    bit<4> x;
    state start {
        packet.extract(deep);
        x = deep.x;
        transition select(x == wanted) {
            true: found;
            false: accept;
        }
    }
    state found {
        seen = seen + (bit<16>)deep.z;
        transition accept;
    }
}

parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta,
             inout standard_metadata_t std) {
    Deep() sub;
    state start {
        packet.extract(hdr.i);
        meta.state = 1;
        meta.seen = 0;
        transition select(hdr.i.kind, hdr.i.a) {
            (Kind.Plain, 0x10 &&& 0xf0): masked;
            (Kind.Plain, 5 .. 12): ranged;
            (Kind.Plain, 3): exact_one;
            (Kind.Plain, _): accept;
            (Kind.Deep, _): deep;
            (Kind.Pair, _): pair;
            (Kind.Skip, _): skip;
            (Kind.Check, _): check;
            (Kind.Peek, _): peek;
            (Kind.Sub, _): subs;
            (Kind.Cond, _): cond;
        }
    }
    state masked { meta.state = 2; transition accept; }
    state ranged { meta.state = 3; transition accept; }
    state exact_one { meta.state = 4; transition accept; }
    state deep {
        packet.extract(hdr.deep.next);
        meta.state = next_state(meta.state);
        transition select(hdr.deep.last.x, hdr.deep.last.y) {
            (0, 0): accept;
            (15, _): reject;
            default: deep;
        }
    }
    state pair {
        tuple<bit<4>, bit<4>> t = { packet.lookahead<bit<4>>(), hdr.i.a[3:0] };
        meta.state = 5;
        transition select(t[0], t[1] + 1) {
            (1, 2): masked;
            (1 .. 3, 8 &&& 8): ranged;
            default: accept;
        }
    }
    state skip {
        packet.advance((bit<32>)hdr.i.a << 3);
        packet.extract(hdr.deep[0]);
        meta.state = 6;
        transition accept;
    }
    state check {
        verify(hdr.i.a[0:0] == 0, error.Odd);
        meta.state = 7;
        verify(hdr.i.a < 0x80, error.Late);
        meta.seen = 8;
        transition accept;
    }
    state peek {
        peek_t p = packet.lookahead<peek_t>();
        deep_t d = packet.lookahead<deep_t>();
        meta.seen = p.low ++ d.x;
        meta.state = (bit<8>)(packet.lookahead<bit<16>>() & 0xff);
        transition select(p.high) {
            1: accept;
            default: masked;
        }
    }
    state subs {
        sub.apply(packet, hdr.deep[0], meta.seen, 1);
        meta.state = 9;
        transition select(hdr.i.a) {
            1: subs_again;
            default: accept;
        }
    }
    state subs_again {
        sub.apply(packet, hdr.deep[1], meta.seen, 2);
        meta.state = 10;
        transition accept;
    }
    state cond {
        bit<8> n = 1;
        if (hdr.i.a > 3) {
            n = hdr.i.a;
            if (hdr.i.a > 5) { packet.extract(hdr.deep.next); }
        } else {
            n = n + 2;
        }
        meta.state = n;
        transition accept;
    }
}

control Main(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {
        std.egress_spec = 1;
        hdr.mark = { meta.state, 0, meta.seen };
        if (std.parser_error == error.PacketTooShort) { hdr.mark.error_number = 1; }
        else if (std.parser_error == error.NoMatch) { hdr.mark.error_number = 2; }
        else if (std.parser_error == error.StackOutOfBounds) { hdr.mark.error_number = 3; }
        else if (std.parser_error == error.Odd) { hdr.mark.error_number = 4; }
        else if (std.parser_error == error.Late) { hdr.mark.error_number = 5; }
        else if (std.parser_error != error.NoError) { hdr.mark.error_number = 0xff; }
    }
}

#include "end.p4"
