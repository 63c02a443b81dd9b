#include "one_control.p4"

control C(inout H hdr) {
    apply {
        hdr.h.a = this.x;
//                ^ "this" only means something in an abstract method
    }
}

Top(C()) main;
