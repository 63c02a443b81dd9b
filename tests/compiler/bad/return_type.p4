#include "one_control.p4"

bit<8> f(in bit<16> x) {
    return x;
//         ^ returned value must have type bit<8>, not bit<16>; the widths differ, write a cast: (bit<8>)
}

control C(inout H hdr) {
    apply { }
}

Top(C()) main;
