#include "one_control.p4"

parser P(packet_in packet, out H hdr) {
    state start {
        bit<8> x = packet.lookahead();
//                 ^ can't infer type argument "T" of lookahead; write it: <...>
        transition accept;
    }
}

control C(inout H hdr) {
    apply { }
}

Both(P(), C()) main;
