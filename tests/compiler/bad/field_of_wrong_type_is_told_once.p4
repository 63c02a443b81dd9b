#include "one_control.p4"

struct s_t {
    bit<8> good;
    missing_t bad;
//  ^ unknown type "missing_t"
}

control C(inout H hdr) {
    apply {
        s_t s;
        s.bad = 1;
        s.good = true;
//               ^ assigned value must have type bit<8>, not bool
    }
}

Top(C()) main;
