#include "one_control.p4"

parser P(packet_in packet, out H hdr) {
    state start {
        verify(hdr.h.a == 1, 8w1);
//                           ^ argument "toSignal" of verify must have type error, not bit<8>
        transition accept;
    }
}

control C(inout H hdr) {
    apply { }
}

Both(P(), C()) main;
