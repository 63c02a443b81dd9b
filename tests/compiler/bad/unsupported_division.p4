#include "one_control.p4"

control C(inout H hdr) {
    apply {
        hdr.h.a = hdr.h.a / 3;
//                ^ not supported yet: "/" at run time, except by a constant power of 2
    }
}

Top(C()) main;
