#include "one_control.p4"

control C(inout H hdr) {
    apply {
        bit<hdr.h.a> x;
//          ^ the width of a type must be known while compiling
    }
}

Top(C()) main;
