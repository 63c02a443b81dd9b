#include "one_control.p4"

control C(inout H hdr) {
    apply {
        bit<9> x = port_t;
//                 ^ "port_t" is a type, not a value
    }
}

Top(C()) main;
