#include "one_control.p4"

control C(inout H hdr) {
    bit<8> x;
    x y;
//  ^ "x" is a variable, not a type
    apply {

    }
}

Top(C()) main;
