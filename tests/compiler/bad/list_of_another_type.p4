#include "one_control.p4"

extern ex<T> { ex(list<T> data); }
header g_t<T> { T field; }

control C(inout H hdr) {
    ex<bit<8>>((list<bit<16>>){ }) e;
//                            ^ argument "data" of constructor ex must have type list<bit<8>>, not list<bit<16>>
    apply {
        g_t<bit<8>>[2] s;
        s = (g_t<bit<8>>[2]){ { 1 }, (g_t<bit<16>>){#} };
//                                                 ^ element 1 of operand of the cast must have type g_t<bit<8>>, not g_t<bit<16>>
    }
}

Top(C()) main;
