#include "one_control.p4"

const bit<8> H = 1;
//           ^ "H" is already declared

control C(inout H hdr) {
    apply { }
}

Top(C()) main;
