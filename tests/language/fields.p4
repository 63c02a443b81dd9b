// feature: slices (8.7), also nested and as targets of assignments
// feature: casts (8.12): bool, bit, int, new types, serializable enums
// feature: serializable enums (7.2.1, 8.3), also with values that no member has
// feature: plain enums and errors as values (8.2, 8.3)
// feature: tuples and lists (8.13, 8.15): index, nesting, comparison, assignment
// feature: structure-valued and header-valued initializers (8.14, 8.18, 8.27), `...` and `{#}`
// feature: operator assignment (12.1)
// feature: arrays of numbers and bools (8.19) with constant indices, comparison
#include "begin.p4"

enum bit<8> Color { Red = 1, Green = 2, Blue = 0x40 }
enum Mood { Good, Bad }
type bit<16> Port;
typedef bit<8> Byte;

header in_t { Color op; bit<32> a; bit<32> b; }
header out_t { bit<32> x; bit<8> y; }
struct pair_t { bit<8> left; bit<16> right; }
struct nest_t { pair_t p; bool on; Mood mood; error err; }

struct headers_t { in_t i; out_t o; out_t p; }
struct metadata_t { nest_t nest; }

parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta,
             inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.i);
        transition accept;
    }
}

control Main(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {
        std.egress_spec = 1;
        hdr.o = { 0, 0 };
        bit<32> a = hdr.i.a;
        bit<32> b = hdr.i.b;
        int<32> s = (int<32>)b;
        bit<8> op = (bit<8>)hdr.i.op;
        if (op == 16) {
            hdr.o.x = a[23:8][15:8] ++ b[31:24] ++ s[7:0] ++ (a[7:4] ++ b[3:0]);
            hdr.o.x[7:0][7:4] = 0xf;
        } else if (op == 17) {
            hdr.o.x[15:8] = a[7:0];
            hdr.o.x[31:31] = 1;
            hdr.o.x[23:20] = hdr.o.x[11:8];
            hdr.o.y = (bit<8>)s[19:12];
        } else if (op == 18) {
            bool big = a > b;
            bit<1> one = (bit<1>)big;
            hdr.o.y = (bit<8>)one;
            big = (bool)a[0:0];
            if (big) { hdr.o.y = hdr.o.y | 0x80; }
            Port port = (Port)a[15:0];
            bit<16> number = (bit<16>)port;
            hdr.o.x = number ++ (Byte)b ++ (Byte)4;
            hdr.o.x = hdr.o.x + (port == (Port)0x0203 ? 32w0x01000000 : 0);
        } else if (op == 19) {
            Color c = (Color)a[7:0];
            if (c == Color.Blue) { hdr.o.y = 1; }
            else if (c != Color.Red && c != Color.Green) { hdr.o.y = 0xff; }
            hdr.o.x = (bit<32>)(bit<8>)c;
            hdr.i.op = Color.Blue;
        } else if (op == 20) {
            meta.nest.mood = a == 0 ? Mood.Good : Mood.Bad;
            meta.nest.err = b == 0 ? error.NoError : error.NoMatch;
            if (meta.nest.mood == Mood.Bad) { hdr.o.y = 1; }
            if (meta.nest.err == error.NoMatch) { hdr.o.y = hdr.o.y | 2; }
            if (meta.nest.err != std.parser_error) { hdr.o.y = hdr.o.y | 4; }
        } else if (op == 21) {
            tuple<bit<8>, tuple<bit<16>, bool>> t = { a[7:0], { b[15:0], a == b } };
            tuple<bit<8>, tuple<bit<16>, bool>> u = t;
            u[0] = t[0] + 1;
            if (t == u) { hdr.o.y = 1; }
            if (t[1] == u[1]) { hdr.o.y = hdr.o.y | 2; }
            if (u[1][1]) { hdr.o.y = hdr.o.y | 4; }
            hdr.o.x = (bit<32>)(u[0] ++ u[1][0]);
            if ({ a[7:0], { b[15:0], true } } == t) { hdr.o.y = hdr.o.y | 8; }
        } else if (op == 22) {
            pair_t p = { right = b[15:0], left = a[7:0] };
            nest_t n = { p = p, on = a > b, ... };
            if (n.err == error.NoError && n.mood == Mood.Good) { hdr.o.y = 1; }
            p = { p.right[7:0], (bit<16>)p.left };
            hdr.o.x = n.p.left ++ p.right ++ p.left;
            meta.nest = n;
            if (meta.nest.on) { hdr.p = { y = 7, x = a }; }
            if (n.p == { left = 8w5, right = 16w5 }) { hdr.o.y = hdr.o.y | 2; }
        } else if (op == 23) {
            hdr.p = { a, 3 };
            if (b == 0) { hdr.p = {#}; }
            hdr.o = (out_t) { x = b, ... };
            if (hdr.p == (out_t){#}) { hdr.o.y = 9; }
        } else if (op == 24) {
            a += b; hdr.o.x = a;
            a -= 3; a *= 2; a |= 1; a ^= 0xff00; a &= 0xffffff; a <<= 4; a >>= 2;
            hdr.o.x ^= a;
            s |+|= 0x7fffffff;
            hdr.o.y = s[31:24];
            hdr.o.y |-|= 0x70;
            hdr.o.x[7:0] += 1;
        } else if (op == 25) {
            hdr.i.op = (Color)(bit<8>)(hdr.i.op == Color.Red ? Color.Blue : Color.Green);
            hdr.o.x = (bit<32>)(int<32>)(int<8>)(bit<8>)a;
            hdr.o.y = (bit<8>)(int<8>)(int<4>)b[3:0];
        } else if (op == 26) {
            bit<8>[3] n = { 1, 2, 3 };
            bool[2] bits;
            n[1] = a[7:0];
            n[2] = n[1] + n[0];
            bits[0] = a == b;
            bits[1] = n == n;
            hdr.o.x = n[0] ++ n[1] ++ n[2] ++ 8w0;
            if (bits[0] && bits[1]) { hdr.o.y = 1; }
        }
    }
}

#include "end.p4"
