#include "one_control.p4"

control C(inout H hdr) {
    action a() { }
    action set(bit<8> x) { }
    table t {
        actions = { a; @tableonly set; }
        default_action = set(1);
//                       ^ action "set" is @tableonly: it can't be used here
    }
    apply {
        t.apply();
    }
}

Top(C()) main;
