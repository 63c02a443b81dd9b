#include "one_control.p4"

parser P(packet_in packet, out H hdr) {
    state start {
        packet.extract(hdr.h, 32w8);
//                     ^ extract with a size needs a header with one varbit field; h_t has 0
        transition accept;
    }
}

control C(inout H hdr) {
    apply { }
}

Both(P(), C()) main;
