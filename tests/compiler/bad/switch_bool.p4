#include "one_control.p4"

control C(inout H hdr) {
    apply {
        switch (hdr.h.a == 1) {
//              ^ switch can't choose by a value of type bool
            true: { }
        }
        port_id_t p = 5;
        switch (p) {
//              ^ switch can't choose by a value of type port_id_t
            default: { }
        }
        if (p == 5) { }
//          ^ "==" can't compare port_id_t with int
    }
}

Top(C()) main;
