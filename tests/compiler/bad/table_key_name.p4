#include "one_control.p4"

control C(inout H hdr) {
    action a() { }
    action set(bit<8> x) { }
    table t {
        key = { hdr.h.a + 1: exact; }
//              ^ this key has no name for the control plane: add @name("...") behind it
        actions = { a; }
    }
    apply {
        t.apply();
    }
}

Top(C()) main;
