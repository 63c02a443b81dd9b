#include "one_control.p4"

control C(inout H hdr) {
    action a() { }
    action set(bit<8> x) { }
    table t {
        key = { hdr.h.a: exact; }
        actions = { a; }
        const entries = {
            16w1: a();
//          ^ matched value must have type bit<8>, not bit<16>; the widths differ, write a cast: (bit<8>)
        }
    }
    apply {
        t.apply();
    }
}

Top(C()) main;
