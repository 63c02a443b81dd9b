#include "one_control.p4"

control C(inout H hdr) {
    apply {
        hdr.h.a = 1 |+| 2;
//                ^ "|+|" needs a width: there is no largest int
    }
}

Top(C()) main;
