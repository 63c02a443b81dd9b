#include "one_control.p4"

control D(Block b) {
//              ^ parameter "b" of control "D" can't have type Block
    apply { }
}

control C(inout H hdr) {
    apply { }
}

Top(C()) main;
