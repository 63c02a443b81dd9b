#include "one_control.p4"

struct s_t {
    bit<8> x;
    bit<8> x;
//         ^ duplicate field "x" in "s_t"
}

control C(inout H hdr) {
    apply { }
}

Top(C()) main;
