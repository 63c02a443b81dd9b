#include "one_control.p4"

control C(inout H hdr) {
    apply {
        bool b = (bool)hdr.h.a;
//               ^ there is no cast from bit<8> to bool
    }
}

Top(C()) main;
