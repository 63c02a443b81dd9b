// What every port received and sent: packets and bytes, the controller's and dropped ones too.

#ifndef WEFT_PORT_COUNTERS_P4
#define WEFT_PORT_COUNTERS_P4

#include "../include/constants.p4"
#include "../include/ids.p4"

control ReceiveCounters(in standard_metadata_t std) {
    @id(COUNTER_ID_PORT_RX)
    counter(PORTS, CounterType.packets_and_bytes) port_rx;

    apply {
        port_rx.count((bit<32>)std.ingress_port);
    }
}

// At the start of egress: what is counted here leaves, unless the port itself is down.
control TransmitCounters(in standard_metadata_t std) {
    @id(COUNTER_ID_PORT_TX)
    counter(PORTS, CounterType.packets_and_bytes) port_tx;

    apply {
        port_tx.count((bit<32>)std.egress_port);
    }
}

#endif
