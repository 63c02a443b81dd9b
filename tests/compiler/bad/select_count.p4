#include "one_control.p4"

parser P(packet_in packet, out H hdr) {
    state start {
        packet.extract(hdr.h);
        transition select(hdr.h.a, hdr.h.b) {
            (1, 2, 3): accept;
//          ^ this matches 3 values, but there are 2 keys
            default: reject;
        }
    }
}

control C(inout H hdr) {
    apply { }
}

Both(P(), C()) main;
