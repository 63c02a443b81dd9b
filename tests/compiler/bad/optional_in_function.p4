#include "one_control.p4"

void f(@optional in bit<8> x) { }
//                         ^ "x" can't be @optional: only externs and packages have that

control C(inout H hdr) {
    apply { }
}

Top(C()) main;
