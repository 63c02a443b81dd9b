#include "one_control.p4"

control C(inout H hdr) {
    apply {
        hdr.h.a = hdr.h.a / -1;
//                          ^ "/" is not defined for negative numbers
        hdr.h.a = -5 % hdr.h.a;
//                ^ "%" is not defined for negative numbers
    }
}

Top(C()) main;
