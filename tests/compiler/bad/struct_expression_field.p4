#include "one_control.p4"

control C(inout H hdr) {
    apply {
        hdr.h = {a = 1, b = 2, s = 0, flagg = 1};
//                                    ^ h_t has no field "flagg"; did you mean "flag"?
    }
}

Top(C()) main;
