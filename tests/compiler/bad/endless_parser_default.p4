#include "one_control.p4"

parser P(packet_in packet, out H hdr) {
//     ^ parser "P" never reaches accept or reject
    state start {
        packet.extract(hdr.h);
        transition select(hdr.h.a) {
            default: start;
            1: accept;
        }
    }
}

control C(inout H hdr) {
    apply { }
}

Both(P(), C()) main;
