#include "one_control.p4"

control C(inout H hdr) {
    action a() { }
    action set(bit<8> x) { }
    table t {
        key = { hdr.h.a: exact; }
//      ^ entries of exact and lpm keys have no priorities
        actions = { a; }
        entries = {
            priority = 1: 1: a();
        }
    }
    apply {
        t.apply();
    }
}

Top(C()) main;
