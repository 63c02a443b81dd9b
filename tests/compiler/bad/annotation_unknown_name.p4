#include "one_control.p4"

header sized_t {
    bit<32> n;
    @length(n * 8) varbit<64> good;
    @length(m) varbit<64> later;
//          ^ unknown name "m"
    @length(n, n) bit<8> two;
//  ^ @length takes one expression
    bit<32> m;
}

control C(inout H hdr) {
    table t {
        key = { hdr.h.a : exact @match(nearly); }
//                                     ^ unknown name "nearly"
        actions = { }
    }
    apply { }
}

Top(C()) main;
