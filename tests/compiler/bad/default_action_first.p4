#include "one_control.p4"

control C(inout H hdr) {
    action a() { }
    table t {
//        ^ "default_action" of table "t" must come after "actions"
        default_action = a;
        actions = { a; }
    }
    apply { t.apply(); }
}

Top(C()) main;
