#include "one_control.p4"

@p4runtime_translation("", bool)
// ^1 @p4runtime_translation takes a URI and a width in bits, bit<W> or string
type bit<8> x_t;

control C(inout H hdr) {
    apply { }
}

Top(C()) main;
