#include "one_control.p4"

control C(inout H hdr) {
    action a() { }
    action set(bit<8> x) { }
    table t {
        actions = { a; }
        size = 1 - 2;
//             ^ the size of a table can't be negative (-1)
    }
    apply {
        t.apply();
    }
}

Top(C()) main;
