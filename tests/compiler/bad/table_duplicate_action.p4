#include "one_control.p4"

control C(inout H hdr) {
    action a() { }
    action set(bit<8> x) { }
    table t {
        actions = { a; set; a; }
//                          ^ action "a" is listed twice in table "t"
    }
    apply {
        t.apply();
    }
}

Top(C()) main;
