#include "one_control.p4"

control C(inout H hdr) {
    action b(h_t h) { }
//               ^ parameter "h" of action "b" is set by the control plane: it can't have type h_t
    table t {
        actions = { b; }
    }
    apply {
        t.apply();
    }
}

Top(C()) main;
