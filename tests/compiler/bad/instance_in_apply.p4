#include "one_control.p4"

control C(inout H hdr) {
    apply {
        counter_t(16) c;
//                    ^ "c" is an instance: declare it before apply
    }
}

Top(C()) main;
