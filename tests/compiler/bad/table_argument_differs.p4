#include "one_control.p4"

control C(inout H hdr) {
    action a(in bit<8> x) { }
    table t {
        actions = { a(hdr.h.a); }
        default_action = a(hdr.v.n);
//                         ^ argument "x" differs from the one in "actions"
    }
    apply {
        t.apply();
    }
}

Top(C()) main;
