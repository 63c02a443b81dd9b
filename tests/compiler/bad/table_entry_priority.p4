#include "one_control.p4"

control C(inout H hdr) {
    action a() { }
    action set(bit<8> x) { }
    table t {
        key = { hdr.h.a: exact; }
        actions = { a; }
        entries = {
            priority = 1: 1: a();
//          ^ entries of exact and lpm keys have no priorities
        }
    }
    apply {
        t.apply();
    }
}

Top(C()) main;
