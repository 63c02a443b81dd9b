#include "one_control.p4"

enum port_id_t e_t {
//   ^ an enum is represented by bit<W> or int<W>, not port_id_t
    A = 1
}

control C(inout H hdr) {
    apply { }
}

Top(C()) main;
