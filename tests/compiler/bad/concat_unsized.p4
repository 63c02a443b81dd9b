#include "one_control.p4"

control C(inout H hdr) {
    apply {
        hdr.h.b = hdr.h.a ++ 1;
//                           ^ "++" is not defined for int: write its width, as in 8w1
    }
}

Top(C()) main;
