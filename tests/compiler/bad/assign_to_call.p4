#include "one_control.p4"

control C(inout H hdr) {
    apply {
        hdr.h.isValid() = true;
//      ^ can't assign to this expression: it is no l-value
    }
}

Top(C()) main;
