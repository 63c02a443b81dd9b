#include "one_control.p4"

control C(inout H hdr) {
    @name(5) action a() { }
//  ^ @name takes one string
    apply {

    }
}

Top(C()) main;
