#include "one_control.p4"

control C(inout H hdr) {
    action a() { }
    action set(bit<8> x) { }
    table t {
        actions = { a; sett; }
//                     ^ unknown action "sett"; did you mean "set"?
    }
    apply {
        t.apply();
    }
}

Top(C()) main;
