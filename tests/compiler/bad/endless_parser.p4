#include "one_control.p4"

parser P(packet_in packet, out H hdr) {
//     ^ parser "P" never reaches accept or reject
    state start {
        transition again;
    }
    state again {
        transition start;
    }
}

control C(inout H hdr) {
    apply { }
}

Both(P(), C()) main;
