#include "one_control.p4"

control C(inout H hdr) {
    apply {
        bit<4> x = hdr.h.a[2:5];
//                         ^ the slice [2:5] is empty: the upper bound comes first
    }
}

Top(C()) main;
