#include "one_control.p4"

control C(inout H hdr) {
    apply {
        switch (hdr.h.a) {
//      ^ this switch has more than one label "default"
            2: { }
            default: { }
            default: { hdr.h.a = 1; }
        }
    }
}

Top(C()) main;
