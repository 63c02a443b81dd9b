#include "one_control.p4"

control C(inout H hdr) {
    bit<8> x; hdr_t y;
//            ^ unknown type "hdr_t"; did you mean "h_t"?
    apply {

    }
}

Top(C()) main;
