#include "one_control.p4"

control C(inout H hdr) {
    apply {
        bit<8> hdr = 1;
//             ^ "hdr" hides the parameter of that name
    }
}

Top(C()) main;
