#include "one_control.p4"

control A() { apply { } }

control B()(A a) {
//            ^ parameter "a" of constructor of "B" can't have type A, which has a body: declare a type of such
    apply { }
}

control C(inout H hdr) {
    apply { }
}

Top(C()) main;
