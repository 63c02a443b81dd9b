#include "one_control.p4"

control C(inout H hdr) {
    apply {
        hdr.h.a = 1
//                 ^ syntax error: expected ";" before "hdr"
        hdr.h.b = 2;
    }
}

Top(C()) main;
