#include "one_control.p4"

extern virtual_t {
    virtual_t();
    abstract bit<8> f(in bit<8> x, @optional out bit<8> y);
    @optional abstract void g();
}

extern holder_t { holder_t(virtual_t v); int number(); }
//                                       ^ a method can't return int

control C(inout H hdr) {
    holder_t(virtual_t()) h;
//           ^ extern virtual_t has abstract methods: declare an instance that defines them
    apply { }
}

Top(C()) main;
