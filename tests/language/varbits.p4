// feature: varbit (7.1.6.5, 8.11): every size from 0 to the maximum, copied, compared, emitted
// feature: varbit in checksums and hashes (v1model)
#include "begin.p4"

header options_t { bit<8> length; varbit<64> data; bit<8> after; }
header sum_t { bit<16> sum; }

struct headers_t {
    options_t first;
    options_t second;
    sum_t     sum;
}
struct metadata_t { bit<16> hash; }

parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta,
             inout standard_metadata_t std) {
    state start {
        bit<8> length = packet.lookahead<bit<8>>();
        packet.extract(hdr.first, (bit<32>)length * 8);
        transition select(packet.lookahead<bit<8>>()) {
            0xff: accept;
            default: more;
        }
    }
    state more {
        packet.extract(hdr.second, (bit<32>)(packet.lookahead<bit<8>>() ++ 3w0));
        transition accept;
    }
}

control Main(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {
        std.egress_spec = 1;
        hdr.sum.setValid();
        if (std.parser_error != error.NoError) {
            std.egress_spec = std.parser_error == error.HeaderTooShort ? 9w2 : 3;
            return;
        }
        if (hdr.second.isValid()) {
            if (hdr.first.data == hdr.second.data) {
                std.egress_spec = 4;
            }
            if (hdr.first.after == 1) {
                hdr.first = hdr.second;
            } else if (hdr.first.after == 2) {
                hdr.first.data = hdr.second.data;
            } else if (hdr.first.after == 3) {
                hdr.second.setInvalid();
            }
        } else if (hdr.first.after == 4) {
            hash(meta.hash, HashAlgorithm.csum16, 16w0, { hdr.first.data }, 32w0x10000);
            hdr.sum.sum = meta.hash;
        }
    }
}

control Sum(inout headers_t hdr, inout metadata_t meta) {
    apply {
        update_checksum(hdr.first.after == 5 && !hdr.second.isValid(),
                        { hdr.first.length, hdr.first.data, hdr.first.after },
                        hdr.sum.sum, HashAlgorithm.csum16);
    }
}

#define COMPUTE Sum
#include "end.p4"
