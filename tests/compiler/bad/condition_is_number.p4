#include "one_control.p4"

control C(inout H hdr) {
    apply {
        if (hdr.h.flag) { }
//          ^ a condition must be bool, not bit<1>; compare it, as in x == 1
    }
}

Top(C()) main;
