#include "one_control.p4"

control C(inout H hdr) {
    @name(".C.b") action a() { }
    action b() { }
//         ^ action "b" has the control-plane name "C.b" of another action
    apply {

    }
}

Top(C()) main;
