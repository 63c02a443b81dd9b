#include "one_control.p4"

control C(inout H hdr) {
    apply {
        bit<8> x = proto_t.TPC;
//                         ^ proto_t has no member "TPC"; did you mean "TCP"?
    }
}

Top(C()) main;
