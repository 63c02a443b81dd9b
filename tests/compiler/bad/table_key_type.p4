#include "one_control.p4"

control C(inout H hdr) {
    action a() { }
    action set(bit<8> x) { }
    table t {
        key = { hdr.h: exact; }
//              ^ a key can't have type h_t
        actions = { a; }
    }
    apply {
        t.apply();
    }
}

Top(C()) main;
