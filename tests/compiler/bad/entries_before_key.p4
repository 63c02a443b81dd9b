#include "one_control.p4"

control C(inout H hdr) {
    action a() { }
    table t {
        actions = { a; }
        entries = {
            1: a();
        }
        key = { hdr.h.a: exact; }
//      ^ "key" must come before "entries"
    }
    apply {
        t.apply();
    }
}

Top(C()) main;
