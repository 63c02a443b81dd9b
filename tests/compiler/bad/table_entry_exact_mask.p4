#include "one_control.p4"

control C(inout H hdr) {
    action a() { }
    action set(bit<8> x) { }
    table t {
        key = { hdr.h.a: exact; }
        actions = { a; }
        const entries = {
            1 &&& 3: a();
//          ^ a key matched as "exact" can't be a mask in an entry
        }
    }
    apply {
        t.apply();
    }
}

Top(C()) main;
