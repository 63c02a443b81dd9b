#include "one_control.p4"

control C(inout H hdr) {
    apply {
        compute<bit<8>, bit<8>>(hdr.h.a, hdr.h.b);
//      ^ compute takes 1 type argument, not 2
    }
}

Top(C()) main;
