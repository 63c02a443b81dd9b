#include "one_control.p4"

header outer_t {
    h_t inner;
//  ^ field "inner" of header "outer_t" can't have type h_t
}

control C(inout H hdr) {
    apply { }
}

Top(C()) main;
