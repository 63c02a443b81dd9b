#include "one_control.p4"

const bool ok = static_assert(1 == 2, "sizes differ");
//              ^ static_assert failed: sizes differ

control C(inout H hdr) {
    apply { }
}

Top(C()) main;
