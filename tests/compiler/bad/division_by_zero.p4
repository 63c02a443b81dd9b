#include "one_control.p4"

control C(inout H hdr) {
    apply {
        hdr.h.a = 8w4 / 0;
//                      ^ division by zero
    }
}

Top(C()) main;
