#include "one_control.p4"

control C(inout H hdr) {
    apply {
        hdr.h.a = ;
//                ^ syntax error: expected an expression, found ";"
        hdr.h.b = hdr.h.b + ;
//                          ^ syntax error: expected an expression, found ";"
    }
}

Top(C()) main;
