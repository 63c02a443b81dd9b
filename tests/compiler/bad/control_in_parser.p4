#include "one_control.p4"

control C(inout H hdr) {
    apply { }
}

parser P(packet_in packet, out H hdr) {
    C() c;
//  ^ control "C" can't be instantiated in a parser
    state start {
        transition accept;
    }
}

Both(P(), C()) main;
