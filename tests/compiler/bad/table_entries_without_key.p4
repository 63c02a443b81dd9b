#include "one_control.p4"

control C(inout H hdr) {
    action a() { }
    action set(bit<8> x) { }
    table t {
//        ^ table "t" has entries but no "key"
        actions = { a; }
        const entries = {
            1: a();
        }
    }
    apply {
        t.apply();
    }
}

Top(C()) main;
