#include "one_control.p4"

control C(inout H hdr) {
    apply {
        hdr.h = {1, 2};
//              ^ assigned value of type h_t needs 4 elements, not 2
    }
}

Top(C()) main;
