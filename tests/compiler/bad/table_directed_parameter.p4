#include "one_control.p4"

control C(inout H hdr) {
    action b(in bit<8> x) { }
    table t {
        actions = { b; }
//                  ^ action "b" has parameters with a direction: bind "x" here
    }
    apply {
        t.apply();
    }
}

Top(C()) main;
