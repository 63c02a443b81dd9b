#include "one_control.p4"

extern virtual_t {
    virtual_t();
    abstract bit<8> f(in bit<8> x, @optional out bit<8> y);
    @optional abstract void g();
}

control C(inout H hdr) {
    virtual_t() v = {
//              ^ not supported yet: instances that define abstract methods
        bit<8> f(in bit<8> x) { this.g(); return x; }
        void g() { }
    };
    apply { }
}

Top(C()) main;
