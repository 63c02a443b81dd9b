#include "one_control.p4"

header two_t {
    varbit<8> x;
//            ^ header two_t has more than one varbit field: it can't be extracted
    varbit<8> y;
}

parser P(packet_in packet, out H hdr) {
    two_t two;
    state start {
        packet.extract(two, 8);
        transition accept;
    }
}

control C(inout H hdr) {
    apply { }
}

Both(P(), C()) main;
