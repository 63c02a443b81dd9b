#include "one_control.p4"

control C(inout H hdr) {
    apply {
        hdr.h.a + 1;
//              ^ syntax error: expected "=" or a call, found "+"
    }
}

Top(C()) main;
