#include "one_control.p4"

control C(inout H hdr) {
    apply {
        hdr.stack[3].a = 1;
//                ^ index 3 is outside of h_t[3]: 0 to 2
    }
}

Top(C()) main;
