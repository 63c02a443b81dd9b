#include "one_control.p4"

control C(inout H hdr) {
    bit<8> x = 1;
    const bit<8> K = x;
//                   ^ this value must be known while compiling
    apply {

    }
}

Top(C()) main;
