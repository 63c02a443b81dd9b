#include "one_control.p4"

control C(inout H hdr) {
    action a(counter_t c) { }
//                     ^ parameter "c" of action "a" can't be an extern object
    apply {

    }
}

Top(C()) main;
