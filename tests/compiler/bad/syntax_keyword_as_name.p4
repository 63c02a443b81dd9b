#include "one_control.p4"

control C(inout H hdr) {
    bit<8> table;
//         ^ syntax error: expected the name of a variable, found "table"
    apply {

    }
}

Top(C()) main;
