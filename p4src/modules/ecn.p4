// Marks packets of ECN-capable flows (RFC 3168) by the depth of the queue that they waited in.
// Between two installed depths the probability rises linearly, as DCQCN's switches mark (and RED,
// without its average); equal depths make a step. Reads the depth at dequeue: the one at enqueue
// is stale by the queueing delay. A packet whose source hears of this queue by fast CNPs is not
// marked; one whose source was told by a plain CNP is.

#ifndef WEFT_ECN_P4
#define WEFT_ECN_P4

#include "../include/constants.p4"
#include "../include/headers.p4"

control EcnMarking(inout headers_t hdr, in local_metadata_t meta, in standard_metadata_t std) {
    @id(0x12000004)
    counter(PORTS, CounterType.packets) port_marked;

    apply {
        if (hdr.ipv4.isValid() && meta.fast_cnp.told == 0 &&
            (std.deq_qdepth > meta.ecn.low || meta.fast_cnp.must_mark == 1) &&
            (hdr.ipv4.ecn == Ecn.CAPABLE_0 || hdr.ipv4.ecn == Ecn.CAPABLE_1)) {
            bool mark = true;
            if (std.deq_qdepth <= meta.ecn.high && meta.fast_cnp.must_mark == 0) {
                bit<32> draw;
                random(draw, 0, 0xffffffff);
                bit<64> share = (bit<64>)(std.deq_qdepth - meta.ecn.low) * (bit<64>)meta.ecn.slope;
                mark = share > (bit<64>)draw;
            }
            if (mark) {
                hdr.ipv4.ecn = Ecn.CONGESTED;
                port_marked.count((bit<32>)std.egress_port);
            }
        }
    }
}

#endif
