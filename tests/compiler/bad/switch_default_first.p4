#include "one_control.p4"

control C(inout H hdr) {
    apply {
        switch (hdr.h.a) {
            default: { }
//          ^ "default" must be the last label
            2: { }
        }
    }
}

Top(C()) main;
