#include "one_control.p4"

control C(inout H hdr) {
    apply {
        hdr.h = hdr.v;
//              ^ assigned value must have type h_t, not v_t
    }
}

Top(C()) main;
