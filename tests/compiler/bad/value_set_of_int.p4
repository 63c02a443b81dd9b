#include "one_control.p4"

parser P(in bit<8> x) {
    value_set<int>(4) numbers;
//            ^ a value set can't have elements of type int
    state start { transition accept; }
}

control C(inout H hdr) {
    apply { }
}

Top(C()) main;
