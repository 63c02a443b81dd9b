#include "one_control.p4"

control C(inout H hdr) {
    apply {
        port_id_t p = (port_id_t)9w1;
        bool b = p + 1 == p;
//               ^ "+" is not defined for port_id_t: cast it to bit<9> first
    }
}

Top(C()) main;
