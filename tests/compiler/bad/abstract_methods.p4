#include "one_control.p4"

extern virtual_t {
    virtual_t();
    abstract bit<8> f(in bit<8> x, @optional out bit<8> y);
    @optional abstract void g();
}

extern plain_t { plain_t(); void f(); }

control C(inout H hdr) {
    virtual_t() missing = { };
//              ^ "missing" must define the abstract method "f" of virtual_t
    virtual_t() without;
//              ^ "without" must define the abstract method "f" of virtual_t
    virtual_t() wrong_result = {
//              ^ method "f" of "wrong_result" must return bit<8>, not bit<16>
//              ^ not supported yet: instances that define abstract methods
        bit<16> f(in bit<8> x) { return 1; }
    };
    virtual_t() wrong_parameter = {
//              ^ method "f" of "wrong_parameter" has as parameter 1 "inout bit<8> x" where "in bit<8> x" is needed
//              ^ not supported yet: instances that define abstract methods
        bit<8> f(inout bit<8> x) { return 1; }
    };
    virtual_t() wrong_number = {
//              ^ method "f" of "wrong_number" must have 2 parameters, not 0
//              ^ not supported yet: instances that define abstract methods
        bit<8> f() { return 1; }
    };
    virtual_t() wrong_bodies = {
//              ^ not supported yet: instances that define abstract methods
        bit<8> f(in bit<8> x) { return true; }
//                                     ^ returned value must have type bit<8>, not bool
        void g() { return 1; }
//                        ^ a void function returns no value
        void h() { }
//           ^ virtual_t has no abstract method "h"
    };
    virtual_t() no_value = {
//              ^ not supported yet: instances that define abstract methods
        bit<8> f(in bit<8> x) { }
//             ^ method "f" does not always return a value
    };
    plain_t() plain = { void f() { } };
//            ^ extern plain_t has no abstract methods to define
    apply { }
}

Top(C()) main;
