#include "one_control.p4"

extern made_t {
    void made_t(bit<8> x);
//       ^ a constructor of made_t has no result type
}

control C(inout H hdr) {
    apply { }
}

Top(C()) main;
