// The one signal of the fabric: congestion, a link down or up or degraded, the quality of a path.
// Switches send it to switches and to hosts. 128 bits, so that it fits into the 16 reserved bytes of
// a standard RoCEv2 CNP. docs/wire-formats.md says what each field means.
// Mirrored in hostagent/include/notification.h and protocols/notification.py; a test compares them.

#ifndef WEFT_NOTIFICATION_P4
#define WEFT_NOTIFICATION_P4

#include "types.p4"

enum bit<4> NotificationType {
    NONE         = 0,       // a stock CNP: 16 bytes of zeros
    CONGESTION   = 1,
    LINK_DOWN    = 2,
    LINK_UP      = 3,
    DEGRADED     = 4,
    PATH_QUALITY = 5,
    HEARTBEAT    = 6,       // between neighbours: its sender is alive, and does or does not hear the receiver
    PORT_STATE   = 7,       // from the target to its own program: a port lost its carrier, or got it back
    QUEUE        = 8        // how long a queue takes to drain, to the source of a packet that met it
}

header notification_t {
    NotificationType type;
    bit<4>      severity;       // 0 none .. 15 worst
    bit<4>      hops;           // relays left
    bit<4>      validity;       // holds for 2^validity units
    bit<16>     switch_id;      // who saw it
    bit<12>     port;           // where, on that switch
    bit<12>     sequence;       // counts an origin's notifications
    ipv4_addr_t destination;    // where the packet that met it was going
    qp_t        destination_qp; // and to which queue pair
    bit<16>     queue;          // depth, in cells of 256 bytes, saturating; of congestion a rate
}

#endif
