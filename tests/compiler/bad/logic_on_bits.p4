#include "one_control.p4"

control C(inout H hdr) {
    apply {
        if (hdr.h.flag && hdr.h.isValid()) { }
//          ^ "&&" needs bool, not bit<1>; compare it with 1
    }
}

Top(C()) main;
