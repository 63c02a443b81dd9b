#include "one_control.p4"

parser P(packet_in packet, out H hdr) {
    state start {
        transition select(hdr.h) {
//                        ^ select can't match a value of type h_t
            default: accept;
        }
    }
}

control C(inout H hdr) {
    apply { }
}

Both(P(), C()) main;
