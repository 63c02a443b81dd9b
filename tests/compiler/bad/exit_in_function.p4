#include "one_control.p4"

void f() {
    exit;
//  ^ "exit" can't stand in a function
}

control C(inout H hdr) {
    apply { }
}

Top(C()) main;
