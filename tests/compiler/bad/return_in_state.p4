#include "one_control.p4"

parser P(packet_in packet, out H hdr) {
    state start {
        return;
//      ^ "return" can't stand in a parser state
    }
}

control C(inout H hdr) {
    apply { }
}

Both(P(), C()) main;
