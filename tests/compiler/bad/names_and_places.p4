#include "one_control.p4"

control C(inout H hdr) {
    apply {
        compute(hdr.h.a, result = hdr.h.b);
//      ^ arguments of compute are given either all by name or all by place
    }
}

Top(C()) main;
