#include "one_control.p4"

control C(inout H hdr) {
    action a() {
        return 1;
//             ^ the body of this action returns no value
    }
    apply {

    }
}

Top(C()) main;
