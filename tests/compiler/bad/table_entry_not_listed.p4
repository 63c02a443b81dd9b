#include "one_control.p4"

control C(inout H hdr) {
    action a() { }
    action set(bit<8> x) { }
    table t {
        key = { hdr.h.a: exact; }
        actions = { a; }
        const entries = {
            1: set(1);
//             ^ action "set" of this entry is not in the actions of table "t"
        }
    }
    apply {
        t.apply();
    }
}

Top(C()) main;
