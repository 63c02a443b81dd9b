#include "one_control.p4"

parser P(packet_in packet, out H hdr) {
    state start {
        packet.extract(hdr.h);
        transition select(hdr.h.a) {
            16w1: accept;
//          ^ matched value must have type bit<8>, not bit<16>; the widths differ, write a cast: (bit<8>)
            default: reject;
        }
    }
}

control C(inout H hdr) {
    apply { }
}

Both(P(), C()) main;
