#include "one_control.p4"

control C(inout H hdr) {
    apply {
        hdr.h.b = hdr.h.a + hdr.h.b;
//                ^ operands of "+" have types bit<8> and bit<16>; write a cast
    }
}

Top(C()) main;
