#include "one_control.p4"

control C(inout H hdr) {
    apply {
        proto_t p = 6;
//                  ^ initial value of "p" must have type proto_t, not int; write a cast: (proto_t)
    }
}

Top(C()) main;
