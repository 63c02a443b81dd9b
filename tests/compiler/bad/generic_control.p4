#include "one_control.p4"

control G<T>(inout T x) {
    apply { }
}

control C(inout H hdr) {
    G<bit<8>, bit<8>>() two;
//  ^ type "G" takes 1 type argument, not 2
    apply {
        G<bit<8>>.apply(hdr.h.a);
        G<bit<8>>.apply(hdr.h.b);
//                      ^ argument "x" of G.apply must have type bit<8>, not bit<16>; the widths differ, write a cast: (bit<8>)
        G.apply(hdr.h.a);
//      ^ "G" is generic: write its type arguments, G<...>
    }
}

Top(C()) main;
