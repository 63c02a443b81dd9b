#include "one_control.p4"

control C(inout H hdr) {
    action a() { }
    action set(bit<8> x) { }
    table t {
        actions = { a; }
        size = 1;
        size = 2;
//      ^ duplicate table property "size"
    }
    apply {
        t.apply();
    }
}

Top(C()) main;
