#include "one_control.p4"

control C(inout H hdr) {
    apply {
        bool b = hdr.h.a == hdr.h.isValid();
//               ^ "==" can't compare bit<8> with bool
    }
}

Top(C()) main;
