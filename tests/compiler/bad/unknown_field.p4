#include "one_control.p4"

control C(inout H hdr) {
    apply {
        hdr.h.bb = 1;
//            ^ h_t has no field "bb"; did you mean "b"?
    }
}

Top(C()) main;
