#include "one_control.p4"

control C(inout H hdr) {
    apply {
        break;
//      ^ "break" can only stand in a loop
    }
}

Top(C()) main;
