#include "one_control.p4"

control G<T>(inout T x) {
    apply { }
}

control C(inout H hdr) {
    apply {
        G<bit<8>>.apply(hdr.h.a);
//      ^ not supported yet: generic control "G"
    }
}

Top(C()) main;
