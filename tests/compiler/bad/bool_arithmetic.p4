#include "one_control.p4"

control C(inout H hdr) {
    apply {
        bool b = hdr.h.isValid() + true;
//               ^ "+" is not defined for bool
    }
}

Top(C()) main;
