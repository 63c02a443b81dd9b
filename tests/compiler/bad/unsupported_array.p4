#include "one_control.p4"

struct s_t {
    bit<8>[4] bytes;
//  ^ not supported yet: arrays of bit<8>: only headers have stacks
}

control C(inout H hdr) {
    apply { }
}

Top(C()) main;
