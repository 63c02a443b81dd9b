#include "one_control.p4"

control C(inout H hdr) {
    apply {
        bool b = error.PacketToShort == error.NoError;
//                     ^ error has no member "PacketToShort"; did you mean "PacketTooShort"?
    }
}

Top(C()) main;
