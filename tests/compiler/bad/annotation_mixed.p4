#include "one_control.p4"

control C(inout H hdr) {
    @s[1, a = 2] action a() { }
//          ^ syntax error: expected an expression: items and name = value don't mix, found "="
    apply {

    }
}

Top(C()) main;
