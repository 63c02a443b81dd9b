#include "one_control.p4"

control C(inout H hdr) {
    action a() { }
    apply {
        bit<8> x = a;
//                 ^ "a" is an action, not a value
    }
}

Top(C()) main;
