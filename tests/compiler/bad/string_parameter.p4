#include "one_control.p4"

void f(in string s) { }
//               ^ parameter "s" of type string can't be in

control C(inout H hdr) {
    apply { }
}

Top(C()) main;
