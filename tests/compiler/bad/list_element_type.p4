#include "one_control.p4"

control C(inout H hdr) {
    apply {
        hdr.h = {1, true, 0, 0};
//                  ^ field "b" of h_t must have type bit<16>, not bool
    }
}

Top(C()) main;
