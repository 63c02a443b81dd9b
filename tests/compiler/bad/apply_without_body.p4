#include "one_control.p4"

control D(inout H h) {
    apply {
        Block.apply(h);
//      ^ "Block" has no body: it can't be applied
    }
}

control C(inout H hdr) {
    apply { }
}

Top(C()) main;
