#include "one_control.p4"

control C(inout H hdr) {
    apply {
        compute(hdr.h.b, hdr.h.a);
//                       ^ argument "result" of compute must have type bit<16>, not bit<8>; the widths differ, write a cast: (bit<16>)
    }
}

Top(C()) main;
