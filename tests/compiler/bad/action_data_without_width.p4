#include "one_control.p4"

control C(inout H hdr) {
    action a(int x) { }
//               ^ parameter "x" of action "a" needs a width, as in bit<8>
    apply { }
}

Top(C()) main;
