// Marks packets of ECN-capable flows (RFC 3168) that waited in a queue longer than the installed
// threshold. Reads the depth at dequeue: the one at enqueue is stale by the queueing delay.

#ifndef WEFT_ECN_P4
#define WEFT_ECN_P4

#include "../include/constants.p4"
#include "../include/headers.p4"

control EcnMarking(inout headers_t hdr, in local_metadata_t meta, in standard_metadata_t std) {
    @id(0x12000004)
    counter(PORTS, CounterType.packets) port_marked;

    apply {
        if (hdr.ipv4.isValid() && std.deq_qdepth > meta.ecn_threshold &&
            (hdr.ipv4.ecn == Ecn.CAPABLE_0 || hdr.ipv4.ecn == Ecn.CAPABLE_1)) {
            hdr.ipv4.ecn = Ecn.CONGESTED;
            port_marked.count((bit<32>)std.egress_port);
        }
    }
}

#endif
