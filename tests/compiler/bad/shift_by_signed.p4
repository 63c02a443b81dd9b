#include "one_control.p4"

control C(inout H hdr) {
    apply {
        hdr.h.a = hdr.h.a << hdr.h.s;
//                           ^ the shift distance must be bit<W>, not int<8>
    }
}

Top(C()) main;
