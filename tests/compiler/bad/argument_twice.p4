#include "one_control.p4"

control C(inout H hdr) {
    apply {
        compute(data = hdr.h.a, data = hdr.h.b);
//                              ^ argument "data" of compute is given twice
    }
}

Top(C()) main;
