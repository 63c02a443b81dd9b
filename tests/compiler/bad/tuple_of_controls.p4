#include "one_control.p4"

control ct();
extern ex { }

void f(tuple<ct> t) { }
//           ^ a tuple can't have an element of type ct
void g(tuple<bit<8>, ex> t) { }
//                   ^ a tuple can't have an element of type ex

control C(inout H hdr) {
    apply { }
}

Top(C()) main;
