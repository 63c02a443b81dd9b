#include "one_control.p4"

control C(inout H hdr) {
    apply {
        hdr.h.a = hdr.h.s;
//                ^ assigned value must have type bit<8>, not int<8>; signed and unsigned don't mix without a cast
    }
}

Top(C()) main;
