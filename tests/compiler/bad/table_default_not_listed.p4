#include "one_control.p4"

control C(inout H hdr) {
    action a() { }
    action set(bit<8> x) { }
    table t {
        actions = { a; }
        default_action = set(1);
//                       ^ action "set" of default_action is not in the actions of table "t"
    }
    apply {
        t.apply();
    }
}

Top(C()) main;
