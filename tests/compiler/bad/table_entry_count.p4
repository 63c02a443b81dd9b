#include "one_control.p4"

control C(inout H hdr) {
    action a() { }
    action set(bit<8> x) { }
    table t {
        key = { hdr.h.a: exact; hdr.h.b: exact; }
        actions = { a; }
        const entries = {
            1: a();
//          ^ this matches 1 value, but there are 2 keys
        }
    }
    apply {
        t.apply();
    }
}

Top(C()) main;
