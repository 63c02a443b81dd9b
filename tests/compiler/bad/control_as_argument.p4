#include "one_control.p4"

void f<T>(T x) { }
control A() { apply { } }

control C(inout H hdr) {
    A() a;
    apply {
        f(a);
//        ^ an argument can't have type A
    }
}

Top(C()) main;
