#include "one_control.p4"

control C(inout H hdr) {
    action a(bit<8> x, in bit<8> y) { }
//                               ^ parameter "y" of action "a" has a direction: it must come before those without
    apply {

    }
}

Top(C()) main;
