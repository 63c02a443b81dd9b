#include "one_control.p4"

struct s_t {
    bit<8>[4] bytes;
//  ^ BMv2 has no arrays of bit<8>, only stacks of headers and header unions: use a register, or a stack of headers with one field
}

control C(inout H hdr) {
    apply { }
}

Top(C()) main;
