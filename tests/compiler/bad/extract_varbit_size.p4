#include "one_control.p4"

parser P(packet_in packet, out H hdr) {
    state start {
        packet.extract(hdr.v);
//                     ^ header v_t has the varbit field "data": extract needs its size in bits as second argument
        transition accept;
    }
}

control C(inout H hdr) {
    apply { }
}

Both(P(), C()) main;
