#include "one_control.p4"

control D(in counter_t c) {
//                     ^ parameter "c" of control "D" has no direction: its type counter_t is no value
    apply { }
}

control C(inout H hdr) {
    apply { }
}

Top(C()) main;
