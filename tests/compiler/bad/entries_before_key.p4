#include "one_control.p4"

control C(inout H hdr) {
    action a() { }
    table t {
        actions = { a; }
        entries = {
//      ^ "entries" must come after "key"
            1: a();
        }
        key = { hdr.h.a: exact; }
    }
    apply {
        t.apply();
    }
}

Top(C()) main;
