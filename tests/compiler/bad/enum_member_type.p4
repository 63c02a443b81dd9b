#include "one_control.p4"

enum bit<4> e_t {
    A = true
//      ^ constant must have type bit<4>, not bool
}

control C(inout H hdr) {
    apply { }
}

Top(C()) main;
