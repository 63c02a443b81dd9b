#include "one_control.p4"

control C(inout H hdr) {
    action a() { }
}
// ^1 syntax error: expected "apply", found "}"

Top(C()) main;
