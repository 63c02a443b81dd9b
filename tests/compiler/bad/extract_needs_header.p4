#include "one_control.p4"

parser P(packet_in packet, out H hdr) {
    state start {
        packet.extract(hdr);
//                     ^ extract fills a header, not H
        transition accept;
    }
}

control C(inout H hdr) {
    apply { }
}

Both(P(), C()) main;
