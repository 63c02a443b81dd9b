#include "one_control.p4"

control C(inout H hdr) {
    apply {
        int x = 1;
//      ^ a variable can't have type int: give it a width, as in bit<8>
    }
}

Top(C()) main;
