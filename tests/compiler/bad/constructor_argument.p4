#include "one_control.p4"

control C(inout H hdr) {
    counter_t(hdr.h.b) c;
//            ^ argument "size" of constructor counter_t must have type bit<32>, not bit<16>; the widths differ, write a cast: (bit<32>)
    apply {

    }
}

Top(C()) main;
