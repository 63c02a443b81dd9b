#include "one_control.p4"

parser P(packet_in packet, out H hdr) {
    state start {
        transition select(hdr.v.data) {
//                        ^ select can't match a value of type varbit<64>
            default: accept;
        }
    }
}

control C(inout H hdr) {
    apply { }
}

Both(P(), C()) main;
