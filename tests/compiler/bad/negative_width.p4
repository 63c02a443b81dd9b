#include "one_control.p4"

const bit<0 - 4> x = 0;
//        ^ the width of bit can't be negative (-4)

control C(inout H hdr) {
    apply { }
}

Top(C()) main;
