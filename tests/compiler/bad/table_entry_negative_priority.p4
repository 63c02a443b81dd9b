#include "one_control.p4"

control C(inout H hdr) {
    action a() { }
    table t {
//        ^ an entry of table "t" has the priority -8: none can be negative
        key = { hdr.h.a: ternary; }
        actions = { a; }
        priority_delta = 10;
        entries = {
            priority = 12: 1: a();
            2: a();
            3: a();
        }
    }
    apply {
        t.apply();
    }
}

Top(C()) main;
