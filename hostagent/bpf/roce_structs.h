// What the maps hold, beside struct cc_slot. Numbers are in host order.
#ifndef WEFT_ROCE_STRUCTS_H
#define WEFT_ROCE_STRUCTS_H

#include "cc_sent.h"
#include "cc_slot.h"

struct queue_pair_key {
    u32 local_ip;
    u32 qpn;
};

// A queue pair by its peer: what a switch's notification says of it.
struct peer_key {
    u32 local_ip;
    u32 peer_ip;
    u32 peer_qpn;
};

// Indices into `counters`.
enum roce_counter {
    ROCE_PACKETS,      // RoCEv2 of any kind
    ROCE_BYTES,        // their frames
    ROCE_DATA,         // SENDs, WRITEs, READ requests and responses
    ROCE_ACKS,
    ROCE_NAKS,         // receiver not ready, PSN sequence, and other errors
    ROCE_CNPS,
    ROCE_NOTIFIED,     // switches' notifications that queue pairs of ours hear; none is in ROCE_CNPS
    ROCE_MARKED,       // with CE
    ROCE_MALFORMED,    // UDP port 4791 or telemetry's, but cut short or not as it has to be
    ROCE_UNKNOWN_QP,   // for no queue pair of ours
    ROCE_NOTIFICATION_TYPE,  // CNPs with a notification of neither congestion nor nothing
    ROCE_NOTIFICATION_QP,    // CNPs with one of congestion that is for no queue pair of ours
    ROCE_REDIRECTED,   // to an AF_XDP socket
    ROCE_PASSED,       // to the kernel's stack
    ROCE_PROBES,       // of a plane, by a peer; no data
    ROCE_PROBE_ANSWERS,  // to probes of ours
    ROCE_COUNTERS
};

#endif
