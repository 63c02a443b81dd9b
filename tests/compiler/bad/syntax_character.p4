#include "one_control.p4"

control C(inout H hdr) {
    apply {
        hdr.h.a = 1 $ 2;
//                  ^ unexpected character '$'
    }
}

Top(C()) main;
