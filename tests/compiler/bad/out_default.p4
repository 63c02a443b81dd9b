#include "one_control.p4"

void f(out bit<8> x = 1) { }
//                    ^ "x" is out: it can't have a default value

control C(inout H hdr) {
    apply { }
}

Top(C()) main;
