#include "one_control.p4"

control C(inout H hdr) {
    apply {
        switch (hdr.h.a) {
            1: { }
            2: { }
            1: { }
//          ^ duplicate label of switch
        }
    }
}

Top(C()) main;
