#include "one_control.p4"

control C(inout H hdr) {
    action a(bit<8> x) {
        x = 1;
//      ^ can't assign to parameter "x" without direction: it is read-only
    }
    apply {

    }
}

Top(C()) main;
