#include "one_control.p4"

control C(in H hdr) {
    apply { }
}

Top(C()) main;
//  ^ argument "b" of Top must have type Block, not C; parameter 1 is "in H hdr" where "inout H hdr" is needed
