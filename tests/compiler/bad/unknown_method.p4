#include "one_control.p4"

control C(inout H hdr) {
    apply {
        hdr.h.isvalid();
//            ^ h_t has no method "isvalid"; did you mean "isValid"?
    }
}

Top(C()) main;
