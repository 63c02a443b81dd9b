#include "one_control.p4"

control C(inout H hdr) {
    action a() { }
    action set(bit<8> x) { }
    table t {
//        ^ table "t" has no property "actions"
        key = { hdr.h.a: exact; }
    }
    apply {
        t.apply();
    }
}

Top(C()) main;
