#include "one_control.p4"

@pkginfo
// ^1 @pkginfo takes pairs: key = value
const bit<8> x = 1;

@mine[a = { 2, 3 }]
//        ^ a structured annotation holds numbers, strings and bools, not tuple<int, int>
const bit<8> y = 1;

@deprecated("a" | "b")
//          ^ "|" is not defined for string
void f() { }

struct s_t {
    @match(ternary) bit<8> good;
    @match(1 + 1) bit<8> bad;
//         ^ @match takes a match kind, not int
}

control C(inout H hdr) {
    apply { }
}

Top(C()) main;
