#include "one_control.p4"

control C(inout H hdr) {
    apply {
        hrd.h.a = 1;
//      ^ unknown name "hrd"; did you mean "hdr"?
    }
}

Top(C()) main;
