#include "one_control.p4"

control C(inout H hdr) {
    apply {
        port_id_t p = 9w1;
//                    ^ initial value of "p" must have type port_id_t, not bit<9>; write a cast: (port_id_t)
    }
}

Top(C()) main;
