#include "one_control.p4"

parser P(packet_in packet, out H hdr) {
//     ^ parser "P" has no state "start"
    state begin {
        transition accept;
    }
}

control C(inout H hdr) {
    apply { }
}

Both(P(), C()) main;
