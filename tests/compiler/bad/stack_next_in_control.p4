#include "one_control.p4"

control C(inout H hdr) {
    apply {
        hdr.stack.next.a = 1;
//                ^ "next" of a stack can only be used in parsers
    }
}

Top(C()) main;
