#include "one_control.p4"

control C(inout H hdr) {
    apply {
        for (bit<8> each in { hdr.h.a, 16w5 }) { }
//                          ^ for can't go through a value of type tuple<bit<8>, bit<16>>: write (list<bit<8>>){...}
        tuple<bit<8>, bit<8>> pair = { 1, 2 };
        for (bit<8> each in pair) { }
//                          ^ for can't go through a value of type tuple<bit<8>, bit<8>>
        for (bit<16> each in (list<bit<8>>){ 1, 2 }) { }
//                   ^ "each" must have type bit<8>
    }
}

Top(C()) main;
