#include "one_control.p4"

@name("open) const bit<8> k = 1;
//    ^ string without a closing quote

control C(inout H hdr) {
    apply { }
}

Top(C()) main;
