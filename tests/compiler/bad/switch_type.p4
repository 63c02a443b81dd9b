#include "one_control.p4"

control C(inout H hdr) {
    apply {
        switch (hdr.h) {
//              ^ switch can't choose by a value of type h_t
            default: { }
        }
    }
}

Top(C()) main;
