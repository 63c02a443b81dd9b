#include "one_control.p4"

control C(inout H hdr) {
    action a() { }
    action set(bit<8> x) { }
    table t {
        key = { hdr.h.a: exakt; }
//                       ^ unknown match kind "exakt"; did you mean "exact"?
        actions = { a; }
    }
    apply {
        t.apply();
    }
}

Top(C()) main;
