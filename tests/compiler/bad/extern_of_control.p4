#include "one_control.p4"

control ct();
extern wrap { wrap(ct c); }
//                    ^ parameter "c" of an extern can't have type ct

control C(inout H hdr) {
    apply { }
}

Top(C()) main;
