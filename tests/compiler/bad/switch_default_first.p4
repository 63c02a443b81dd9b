#include "one_control.p4"

control C(inout H hdr) {
    apply {
        switch (hdr.h.a) {
//      ^ "default" must be the last label of a switch
            default: { }
            2: { }
        }
    }
}

Top(C()) main;
