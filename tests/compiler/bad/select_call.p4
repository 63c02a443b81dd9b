#include "one_control.p4"

parser P(packet_in packet, out H hdr) {
    state start {
        transition select(8w1) {
            packet.lookahead<bit<8>>(): accept;
//          ^ no call can stand in a keyset
            default: reject;
        }
    }
}

control C(inout H hdr) {
    apply { }
}

Both(P(), C()) main;
