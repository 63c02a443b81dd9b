#include "one_control.p4"

control C(inout H hdr) {
    counter_t c;
//            ^ "c" can't be a variable: counter_t must be instantiated, as in counter_t() c;
    apply {

    }
}

Top(C()) main;
