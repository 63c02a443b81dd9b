#include "one_control.p4"

control C(inout H hdr) {
    apply {
        bool b = hdr.h == hdr.v;
//               ^ "==" can't compare h_t with v_t
    }
}

Top(C()) main;
