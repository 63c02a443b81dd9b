#include "one_control.p4"

control C(inout H hdr) {
    apply {
        compute(dat = hdr.h.a, result = hdr.h.b);
//              ^ compute has no parameter "dat"; did you mean "data"?
    }
}

Top(C()) main;
