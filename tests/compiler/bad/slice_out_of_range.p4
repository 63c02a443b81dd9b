#include "one_control.p4"

control C(inout H hdr) {
    apply {
        bit<4> x = hdr.h.a[8:5];
//                         ^ bit 8 is outside of bit<8>: the highest is 7
    }
}

Top(C()) main;
