#include "one_control.p4"

control C(inout H hdr) {
    apply { }
}

Both(C()) main;
// ^1 Both needs 2 arguments, not 1: "b" left out
