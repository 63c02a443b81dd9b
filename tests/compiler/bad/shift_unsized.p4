#include "one_control.p4"

control C(inout H hdr) {
    apply {
        hdr.h.a = 1 << hdr.h.a;
//                ^ a number shifted by a variable needs a width, as in 8w1
    }
}

Top(C()) main;
