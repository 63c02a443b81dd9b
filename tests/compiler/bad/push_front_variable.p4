#include "one_control.p4"

control C(inout H hdr) {
    apply {
        hdr.stack.push_front(hdr.h.a);
//                           ^ the argument of push_front must be known while compiling
    }
}

Top(C()) main;
