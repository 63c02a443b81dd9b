#include "one_control.p4"

control C(inout H hdr) {
    action a(in bool x) { }
    table t {
        actions = { NoAction; }
    }
    apply {
        a(t.apply().hit);
//        ^ a table can't be applied in an argument of an action
    }
}

Top(C()) main;
