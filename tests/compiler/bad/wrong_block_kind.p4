#include "one_control.p4"

parser P(packet_in packet, out H hdr) {
    state start { transition accept; }
}

Top(P()) main;
//  ^ argument "b" of Top must have type Block, not P
