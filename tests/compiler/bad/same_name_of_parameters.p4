#include "one_control.p4"

control A<p>(inout bit<32> p) { apply { } }
//                         ^ parameter "p" of "A" is already declared
control B<p>(inout bit<32> x)(bit<32> p) { apply { } }
//                                    ^ parameter "p" of "B" is already declared

control C(inout H hdr) {
    apply { }
}

Top(C()) main;
