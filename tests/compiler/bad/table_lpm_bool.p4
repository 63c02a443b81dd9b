#include "one_control.p4"

control C(inout H hdr) {
    action a() { }
    action set(bit<8> x) { }
    table t {
        key = { hdr.h.isValid(): lpm; }
//              ^ a key of type bool can't be matched as "lpm"
        actions = { a; }
    }
    apply {
        t.apply();
    }
}

Top(C()) main;
