#include "one_control.p4"

extern virtual_t { virtual_t(); abstract bit<8> f(); }

control C(inout H hdr) {
    virtual_t() v = {
//              ^ not supported yet: instances that define abstract methods
        bit<8> f() { return 1; }
    };
    apply { }
}

Top(C()) main;
