#include "one_control.p4"

header bytes_t { bit<8>[4] bytes; }
//               ^ field "bytes" of header "bytes_t" can't have type bit<8>[4]

control C(inout H hdr) {
    apply {
        string[2] s;
//      ^ a stack holds headers or header unions, an array numbers and such, not string
        bit<8>[2] a = { 1, 2, 3 };
//                    ^ initial value of "a" of type bit<8>[2] needs 2 elements, not 3
        a[2] = 1;
//        ^ index 2 is outside of bit<8>[2]: 0 to 1
        a.push_front(1);
//        ^ bit<8>[2] has no method "push_front"
        hdr.h.a = a.lastIndex[7:0] + a.size;
//                  ^ an array has no member "lastIndex"
    }
}

Top(C()) main;
