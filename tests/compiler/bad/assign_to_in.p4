#include "one_control.p4"

control C(inout H hdr) {
    action a(in bit<8> x) {
        x = 1;
//      ^ can't assign to "in" parameter "x": it is read-only
    }
    apply {
        a(hdr.h.a);
    }
}

Top(C()) main;
