#include "one_control.p4"

control C(inout H hdr) {
    table t {
        actions = { NoAction; }
    }
    apply {
        t();
//      ^ "t" is a table: apply it by t.apply()
    }
}

Top(C()) main;
