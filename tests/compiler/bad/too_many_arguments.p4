#include "one_control.p4"

control C(inout H hdr) {
    apply {
        compute(hdr.h.a, hdr.h.b, hdr.h.a);
//      ^ compute takes 2 arguments, not 3
    }
}

Top(C()) main;
