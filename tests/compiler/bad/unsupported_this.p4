#include "one_control.p4"

control C(inout H hdr) {
    apply {
        hdr.h.a = this.x;
//                ^ not supported yet: "this"
    }
}

Top(C()) main;
