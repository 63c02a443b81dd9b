#include "one_control.p4"

bit<8> f(in bit<8> x) {
//     ^ function "f" does not always return a value
    if (x == 1) { return 2; }
}

control C(inout H hdr) {
    apply { }
}

Top(C()) main;
