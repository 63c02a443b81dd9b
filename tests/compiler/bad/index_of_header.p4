#include "one_control.p4"

control C(inout H hdr) {
    apply {
        hdr.h[0] = 1;
//      ^ h_t can't be indexed: it is no header stack or tuple
    }
}

Top(C()) main;
