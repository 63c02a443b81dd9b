#include "one_control.p4"

extern void f<T>(in T data);

control C(inout H hdr) {
    apply {
        f("text");
//        ^ argument "data" of f can't be a string: the parameter has a direction
    }
}

Top(C()) main;
