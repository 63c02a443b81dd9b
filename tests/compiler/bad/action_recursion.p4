#include "one_control.p4"

control C(inout H hdr) {
    action a() {
        a();
//      ^ "a" uses itself: recursion is not allowed in P4
    }
    apply {

    }
}

Top(C()) main;
