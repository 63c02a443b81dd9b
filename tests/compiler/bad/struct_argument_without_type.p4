#include "one_control.p4"

control C(inout H hdr) {
    apply {
        compute({a = 8w1, b = 8w2}, hdr.h.b);
//      ^ the struct expression given to compute needs a type: (T){...}
    }
}

Top(C()) main;
