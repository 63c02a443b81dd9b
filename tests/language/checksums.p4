// feature: verify_checksum, update_checksum (v1model): condition, algorithm, checksum_error
// feature: checksums with payload (v1model)
#include "begin.p4"

header in_t { bit<8> op; bit<8> a; bit<16> b; bit<16> sum; bit<16> all; }
header out_t { bit<16> error_seen; bit<32> crc; }

struct headers_t { in_t i; out_t o; }
struct metadata_t { bit<16> seed; }

parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta,
             inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.i);
        transition accept;
    }
}

control Check(inout headers_t hdr, inout metadata_t meta) {
    apply {
        verify_checksum(hdr.i.op == 1, { hdr.i.op, hdr.i.a, hdr.i.b }, hdr.i.sum,
                        HashAlgorithm.csum16);
        verify_checksum_with_payload(hdr.i.op == 2, { hdr.i.op, hdr.i.a }, hdr.i.sum,
                                     HashAlgorithm.csum16);
    }
}

control Main(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {
        std.egress_spec = 1;
        meta.seed = 7;
        hdr.o = { 0, 0 };
        if (std.checksum_error == 1) { hdr.o.error_seen = 0xbad0; }
    }
}

control Write(inout headers_t hdr, inout metadata_t meta) {
    apply {
        update_checksum(hdr.i.op == 3, { hdr.i.op, hdr.i.a, hdr.i.b, 16w9, meta.seed }, hdr.i.sum,
                        HashAlgorithm.csum16);
        update_checksum_with_payload(hdr.o.isValid() && hdr.i.op == 4,
                                     { hdr.i.op, hdr.i.a, hdr.i.b }, hdr.i.all,
                                     HashAlgorithm.csum16);
        update_checksum(hdr.i.op == 4 && hdr.i.a[0:0] == 1, { hdr.i.op, hdr.i.a, hdr.i.b },
                        hdr.o.crc, HashAlgorithm.crc32);
    }
}

#define VERIFY Check
#define COMPUTE Write
#include "end.p4"
