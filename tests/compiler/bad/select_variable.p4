#include "one_control.p4"

parser P(packet_in packet, out H hdr) {
    bit<8> x;
    state start {
        x = 1;
        transition select(8w1) {
            x: accept;
//          ^ a matched value must be known while compiling
            default: reject;
        }
    }
}

control C(inout H hdr) {
    apply { }
}

Both(P(), C()) main;
