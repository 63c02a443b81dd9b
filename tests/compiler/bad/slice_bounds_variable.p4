#include "one_control.p4"

control C(inout H hdr) {
    apply {
        bit<1> x = hdr.h.a[hdr.h.a:0];
//                         ^ the upper bound of a slice must be known while compiling
    }
}

Top(C()) main;
