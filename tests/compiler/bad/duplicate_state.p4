#include "one_control.p4"

parser P(packet_in packet, out H hdr) {
    state start {
        transition s;
    }
    state s {
        transition accept;
    }
    state s {
//        ^ state "s" is already declared
        transition accept;
    }
}

control C(inout H hdr) {
    apply { }
}

Both(P(), C()) main;
