#include "one_control.p4"

control C(inout H hdr) {
    apply {
        C.apply(hdr);
//      ^ "C" uses itself: recursion is not allowed in P4
    }
}

Top(C()) main;
