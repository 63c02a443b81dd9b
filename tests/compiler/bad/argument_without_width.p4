#include "one_control.p4"

control C(inout H hdr) {
    apply {
        compute(1, hdr.h.b);
//              ^ argument of compute needs a width: write it as in 8w1
    }
}

Top(C()) main;
