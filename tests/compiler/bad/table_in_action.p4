#include "one_control.p4"

control C(inout H hdr) {
    action x() { }
    table t {
        actions = { x; }
    }
    action a() {
        t.apply();
//      ^ table "t" can't be applied in an action
    }
    apply {
        t.apply();
    }
}

Top(C()) main;
