#include "one_control.p4"

control C(inout H hdr) {
    apply {
        hdr.h.a = hdr.h.b;
//                ^ assigned value must have type bit<8>, not bit<16>; the widths differ, write a cast: (bit<8>)
    }
}

Top(C()) main;
