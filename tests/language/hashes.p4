// feature: hash algorithms (v1model): crc16, crc32, csum16, xor16, identity, with base and maximum
// feature: hash of wide fields, headers, lists and constants
#include "begin.p4"

header in_t { bit<8> op; bit<32> a; bit<48> b; bit<136> c; }
header out_t { bit<64> r; }
header copy_t { bit<32> a; bit<12> b; bit<4> c; }

struct headers_t { in_t i; out_t o; copy_t k; }
struct metadata_t { }

parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta,
             inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.i);
        transition accept;
    }
}

control Main(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {
        std.egress_spec = 1;
        hdr.o = { 0 };
        bit<16> r16;
        bit<32> r32;
        if (hdr.i.op == 0) {
            hash(r16, HashAlgorithm.crc16, 16w0, { hdr.i.a, hdr.i.b }, 32w0x10000);
            hdr.o.r = (bit<64>)r16;
        } else if (hdr.i.op == 1) {
            hash(r32, HashAlgorithm.crc32, 32w0, { hdr.i.a, hdr.i.b }, 64w0x100000000);
            hdr.o.r = (bit<64>)r32;
        } else if (hdr.i.op == 2) {
            hash(r16, HashAlgorithm.csum16, 16w0, { hdr.i.a, hdr.i.b }, 32w0x10000);
            hdr.o.r = (bit<64>)r16;
        } else if (hdr.i.op == 3) {
            hash(r16, HashAlgorithm.xor16, 16w0, { hdr.i.a, hdr.i.b }, 32w0x10000);
            hdr.o.r = (bit<64>)r16;
        } else if (hdr.i.op == 4) {
            hash(hdr.o.r, HashAlgorithm.identity, 64w0, { hdr.i.a }, 64w0x100000000);
        } else if (hdr.i.op == 5) {
            hash(r16, HashAlgorithm.crc16, 16w100, { hdr.i.a, hdr.i.b }, 32w10);
            hdr.o.r = (bit<64>)r16;
        } else if (hdr.i.op == 6) {
            hash(r32, HashAlgorithm.crc32, 32w0, { hdr.i.c, 8w7, hdr.i.a[15:0] }, 64w0x100000000);
            hdr.o.r = (bit<64>)r32;
        } else if (hdr.i.op == 7) {
            hash(r16, HashAlgorithm.crc16, 16w5, hdr.i, 32w0);
            hdr.o.r = (bit<64>)r16;
        } else if (hdr.i.op == 8) {
            hdr.k = { hdr.i.a, hdr.i.b[11:0], 3 };
            hash(r32, HashAlgorithm.crc32, 32w0, { hdr.k.a, hdr.k.b, hdr.k.c }, 64w0x100000000);
            hdr.k.setInvalid();
            hdr.o.r = (bit<64>)r32;
        } else if (hdr.i.op == 9) {
            hash(hdr.o.r[15:0], HashAlgorithm.crc16, 16w0, { hdr.i.a, hdr.i.b }, 32w0x10000);
        }
    }
}

#include "end.p4"
