#include "one_control.p4"

extern box<T> { box(); void put(in T value); }
struct s<T> { T field; }
typedef s<bit<8>> s8;

box<box<bit<8>>>() b;
// ^1 "box" can't have itself as type argument
typedef s<s8> twice;
//      ^ "s" can't have itself as type argument

control C(inout H hdr) {
    apply { }
}

Top(C()) main;
