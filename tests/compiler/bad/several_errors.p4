#include "one_control.p4"

control C(inout H hdr) {
    apply {
        hdr.h.x = 1;
//            ^ h_t has no field "x"
        hdr.h.a = hdr.h.b;
//                ^ assigned value must have type bit<8>, not bit<16>; the widths differ, write a cast: (bit<8>)
        unknown();
//      ^ unknown name "unknown"
        if (hdr.h.a) {
//          ^ a condition must be bool, not bit<8>; compare it, as in x == 1
            hdr.h.b = true;
//                    ^ assigned value must have type bit<16>, not bool
        }
    }
}

Top(C()) main;
