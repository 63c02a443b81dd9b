#include "one_control.p4"

control C(inout H hdr) {
    action a() { }
    action set(bit<8> x) { }
    table t {
        actions = { set(1); }
//                      ^ parameter "x" of action "set" comes from the control plane: it can't be bound here
    }
    apply {
        t.apply();
    }
}

Top(C()) main;
