#include "one_control.p4"

control C(inout H hdr) {
    apply {
        hdr.h.a = hdr.h.a << -1;
//                           ^ shift by a negative number (-1)
    }
}

Top(C()) main;
