#include "one_control.p4"

extern chain_t {
    chain_t();
    void follow(chain_t next);
//                      ^ "chain_t" can't have a method that takes a "chain_t"
}

control C(inout H hdr) {
    apply { }
}

Top(C()) main;
