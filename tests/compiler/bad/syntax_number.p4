#include "one_control.p4"

control C(inout H hdr) {
    apply {
        hdr.h.a = 8w1x;
//                ^ "8w1x" is no number
    }
}

Top(C()) main;
