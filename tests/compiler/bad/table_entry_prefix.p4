#include "one_control.p4"

control C(inout H hdr) {
    action a() { }
    action set(bit<8> x) { }
    table t {
        key = { hdr.h.a: lpm; }
        actions = { a; }
        const entries = {
            1 &&& 0x0f: a();
//                ^ 0xf is no prefix: an lpm key needs one
        }
    }
    apply {
        t.apply();
    }
}

Top(C()) main;
