// The IPv4 header checksum, options included: checked on the way in, made anew on the way out
// (the TTL changes at every hop, ECN where a queue is long).

#ifndef WEFT_CHECKSUMS_P4
#define WEFT_CHECKSUMS_P4

#include "headers.p4"

control FabricVerifyChecksum(inout headers_t hdr, inout local_metadata_t meta) {
    apply {
        verify_checksum(hdr.ipv4.isValid(),
            { hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.dscp, hdr.ipv4.ecn, hdr.ipv4.length,
              hdr.ipv4.id, hdr.ipv4.reserved, hdr.ipv4.dont_fragment, hdr.ipv4.more_fragments,
              hdr.ipv4.fragment, hdr.ipv4.ttl, hdr.ipv4.protocol, hdr.ipv4.src, hdr.ipv4.dst,
              hdr.ipv4_options.data },
            hdr.ipv4.checksum, HashAlgorithm.csum16);
    }
}

control FabricComputeChecksum(inout headers_t hdr, inout local_metadata_t meta) {
    apply {
        update_checksum(hdr.ipv4.isValid(),
            { hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.dscp, hdr.ipv4.ecn, hdr.ipv4.length,
              hdr.ipv4.id, hdr.ipv4.reserved, hdr.ipv4.dont_fragment, hdr.ipv4.more_fragments,
              hdr.ipv4.fragment, hdr.ipv4.ttl, hdr.ipv4.protocol, hdr.ipv4.src, hdr.ipv4.dst,
              hdr.ipv4_options.data },
            hdr.ipv4.checksum, HashAlgorithm.csum16);
    }
}

#endif
