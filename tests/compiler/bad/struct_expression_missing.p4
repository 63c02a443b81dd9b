#include "one_control.p4"

control C(inout H hdr) {
    apply {
        hdr.h = {a = 1};
//              ^ h_t also needs "b", "s", "flag"
    }
}

Top(C()) main;
