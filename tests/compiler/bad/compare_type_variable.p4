#include "one_control.p4"

bool f<T>(in T a, in T b) {
    return a == b;
//         ^ "==" can't compare T with T
}

control C(inout H hdr) {
    apply { }
}

Top(C()) main;
