#include "one_control.p4"

control C(inout H hdr) {
    bit<8> x;
    apply {
        x();
//      ^ "x" is a variable: it can't be called
    }
}

Top(C()) main;
