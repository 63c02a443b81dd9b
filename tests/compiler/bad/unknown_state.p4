#include "one_control.p4"

parser P(packet_in packet, out H hdr) {
    state start {
        transition parse_ip;
//                 ^ unknown state "parse_ip"; did you mean "parse_ipv4"?
    }
    state parse_ipv4 {
        transition accept;
    }
}

control C(inout H hdr) {
    apply { }
}

Both(P(), C()) main;
