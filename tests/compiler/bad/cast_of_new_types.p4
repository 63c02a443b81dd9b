#include "one_control.p4"

type bit<8> byte_t;
type byte_t octet_t;

control C(inout H hdr) {
    apply {
        byte_t b = (byte_t)hdr.h.a;
        octet_t o = (octet_t)b;
        b = (byte_t)hdr.h.b;
//          ^ there is no cast from bit<16> to byte_t
        o = (octet_t)hdr.h.a;
//          ^ there is no cast from bit<8> to octet_t
        hdr.h.b = (bit<16>)b;
//                ^ there is no cast from byte_t to bit<16>
        hdr.h.b = (bit<16>)proto_t.TCP;
//                ^ there is no cast from proto_t to bit<16>
        b = (byte_t)7;
        hdr.h.a = (bit<8>)b + (bit<8>)proto_t.TCP;
    }
}

Top(C()) main;
