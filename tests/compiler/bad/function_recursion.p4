#include "one_control.p4"

bit<8> f(in bit<8> x) {
    return f(x);
//         ^ "f" uses itself: recursion is not allowed in P4
}

control C(inout H hdr) {
    apply { }
}

Top(C()) main;
