#include "one_control.p4"

control C(inout H hdr) {
    apply {
        bit<16> x = (bit<16>)hdr.h.s;
//                  ^ there is no cast from int<8> to bit<16>; change the width and the sign in two casts
    }
}

Top(C()) main;
