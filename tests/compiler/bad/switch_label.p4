#include "one_control.p4"

control C(inout H hdr) {
    action a() { }
    action b() { }
    table t {
        actions = { a; }
    }
    apply {
        switch (t.apply().action_run) {
            b: { }
//          ^ "b" is no action of table "t"
            default: { }
        }
    }
}

Top(C()) main;
