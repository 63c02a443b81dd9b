#include "one_control.p4"

control C(inout H hdr) {
    apply {
        bit<8> x = (bit<8>)color_t.RED;
//                 ^ there is no cast from color_t to bit<8>
    }
}

Top(C()) main;
