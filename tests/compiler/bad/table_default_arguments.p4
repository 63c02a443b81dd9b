#include "one_control.p4"

control C(inout H hdr) {
    action a() { }
    action set(bit<8> x) { }
    table t {
        actions = { a; set; }
        default_action = set();
//                       ^ action "set" needs 1 argument, not 0: "x" left out
    }
    apply {
        t.apply();
    }
}

Top(C()) main;
