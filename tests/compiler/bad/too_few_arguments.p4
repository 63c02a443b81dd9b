#include "one_control.p4"

control C(inout H hdr) {
    action a(bit<8> x, bit<8> y) { }
    apply {
        a(1);
//      ^ a needs 2 arguments, not 1: "y" left out
    }
}

Top(C()) main;
