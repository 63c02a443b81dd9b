#include "one_control.p4"

control C(inout H hdr) {
    apply { }
}

C() c;
//  ^ C can't be instantiated at top level: give C(...) to a package
Top(C()) main;
