#include "one_control.p4"

header_union v_or_s {
    H h;
//  ^ field "h" of header_union "v_or_s" can't have type H
}

control C(inout H hdr) {
    apply { }
}

Top(C()) main;
