#include "one_control.p4"

struct pair<T> { T x; }
struct uses {
    pair<bit<8>, bit<8>> p;
//  ^ type "pair" takes 1 type argument, not 2
}

control C(inout H hdr) {
    apply { }
}

Top(C()) main;
