#include "one_control.p4"

control C(inout H hdr) {
    @s[1] @s[2] action a() { }
//        ^ @s is given twice
    apply {

    }
}

Top(C()) main;
