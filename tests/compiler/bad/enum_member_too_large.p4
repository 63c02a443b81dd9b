#include "one_control.p4"

enum bit<4> unsigned_t {
    good = 15,
    large = 17,
//          ^ value 17 of member "large" does not fit in bit<4>
    negative = -1,
//             ^ value -1 of member "negative" does not fit in bit<4>
    cast = (bit<4>)17
}

enum int<4> signed_t {
    good = -8,
    low = -9
//        ^ value -9 of member "low" does not fit in int<4>
}

control C(inout H hdr) {
    apply {
        hdr.h.a = 0x12345[70000:69993];
//                        ^ bit 70000 is too far: there are 65536
        hdr.h.b = hdr.h.b[16:1] ++ (hdr.h.a + 1)[3:0];
//                        ^ bit 16 is outside of bit<16>: the highest is 15
    }
}

Top(C()) main;
