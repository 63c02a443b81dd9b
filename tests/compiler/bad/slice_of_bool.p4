#include "one_control.p4"

control C(inout H hdr) {
    apply {
        bit<1> x = hdr.h.isValid()[0:0];
//                 ^ bits can be taken of bit<W> and int<W>, not of bool
    }
}

Top(C()) main;
