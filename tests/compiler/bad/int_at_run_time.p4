#include "one_control.p4"

control C(inout H hdr) {
    apply {
        hdr.h.a = (bit<8>)((int)hdr.h.a + 1);
//                         ^ a run-time value (bit<8>) can't become int, which has no width and so exists while compiling only: cast to bit<w> or int<w>
    }
}

Top(C()) main;
