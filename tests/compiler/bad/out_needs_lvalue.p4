#include "one_control.p4"

control C(inout H hdr) {
    apply {
        compute(hdr.h.a, 16w1);
//                       ^ argument "result" of compute is out: can't write to this expression: it is no l-value
    }
}

Top(C()) main;
