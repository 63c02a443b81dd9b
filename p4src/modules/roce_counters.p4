// What RDMA traffic enters by each port: all RoCEv2 packets, and the negative acknowledgements
// among them, which tell of loss sooner than any end-host statistic.

#ifndef WEFT_ROCE_COUNTERS_P4
#define WEFT_ROCE_COUNTERS_P4

#include "../include/constants.p4"
#include "../include/headers.p4"
#include "../include/ids.p4"

control RoceCounters(in headers_t hdr, in standard_metadata_t std) {
    @id(COUNTER_ID_ROCE_RX)
    counter(PORTS, CounterType.packets_and_bytes) roce_rx;

    @id(COUNTER_ID_ROCE_NAK_RX)
    counter(PORTS, CounterType.packets) roce_nak_rx;

    apply {
        if (hdr.bth.isValid()) {
            roce_rx.count((bit<32>)std.ingress_port);
            if (hdr.aeth.isValid() && hdr.aeth.kind == AethKind.NAK) {
                roce_nak_rx.count((bit<32>)std.ingress_port);
            }
        }
    }
}

#endif
