#include "one_control.p4"

control C(inout H hdr) {
    action a() { }
    bit<8> a;
//         ^ "a" is already declared
    apply {

    }
}

Top(C()) main;
