#include "one_control.p4"

void f(in h_t h) {
    h.setValid();
//  ^ can't change the validity of "in" parameter "h": it is read-only
}

control C(inout H hdr) {
    apply {
        f(hdr.h);
    }
}

Top(C()) main;
