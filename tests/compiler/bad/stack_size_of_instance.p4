#include "one_control.p4"

control Inner(inout H hdr)(bit<32> size) {
    apply {
        h_t[size] stack;
//          ^ the size of a stack must be a number that the text gives: no constructor's parameter, which differs from instance to instance
    }
}

control C(inout H hdr) {
    apply { }
}

Top(C()) main;
