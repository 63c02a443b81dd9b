#include "one_control.p4"

parser pt();
control ct();

control A()(pt p) { apply { } }
//             ^ a control can't hold the parser "p"

parser B()(ct c) { state start { transition accept; } }
//            ^ a parser can't hold the control "c"

control C(inout H hdr) {
    apply { }
}

Top(C()) main;
