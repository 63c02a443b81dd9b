#include "one_control.p4"

control C(inout H hdr) {
    const bit<8> K = 1;
    apply {
        K = 2;
//      ^ can't assign to constant "K"
    }
}

Top(C()) main;
