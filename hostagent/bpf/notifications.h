// Notifications that come in datagrams of their own (docs/wire-formats.md): how they are read, and the maps that count
// them by type and keep the latest of each (host, type, switch, port) for readers.
//
// Nothing in IPv4 says that a datagram is a switch's. That no host's is one is the fabric's to see to (host_guard.p4).
#ifndef WEFT_NOTIFICATIONS_H
#define WEFT_NOTIFICATIONS_H

#include "notification.h"
#include "roce_maps.h"
#include "roce_parse.h"

#define NOTIFICATIONS 4096
#define NOTIFICATION_UDP_BYTES (8 + WEFT_NOTIFICATION_BYTES)
#define MULTICAST_AND_UP 0xe0000000u

struct notification_key {
    u32 local_ip;
    u16 switch_id;
    u16 port;
    u32 type;
};

struct notification_heard {
    u64 at;          // ns of CLOCK_MONOTONIC: the last one
    u64 times;       // how often one of this key has come
    u8 header[WEFT_NOTIFICATION_BYTES];
    u32 body_bytes;  // behind the header
    u32 pad;
};

// Indices into `notified_counts`: the types, and behind them
enum notification_counter {
    NOTIFICATION_MALFORMED = WEFT_NOTIFICATION_TYPES,  // to the port, and not as one has to be
    NOTIFICATION_NO_QP,    // of congestion, but for no queue pair of ours
    NOTIFICATION_LOST,     // the map had no room, which the kernel allows itself when processors compete
    NOTIFICATION_COUNTERS
};

// Of 4 096, those that were heard of longest ago make room.
TABLE("lru_hash", struct notification_key, struct notification_heard, notifications, NOTIFICATIONS, 0);
TABLE("percpu_array", u32, u64, notified_counts, NOTIFICATION_COUNTERS, 0);

// 1: whole, and from a switch as far as that can be seen.
static inline int read_notification(struct cursor *cursor, const struct iphdr *ip, struct roce *packet)
{
    u8 *header = cursor->at;

    if ((void *)(header + WEFT_NOTIFICATION_BYTES) > cursor->end)
        return 0;
    if (packet->malformed || packet->udp_bytes < NOTIFICATION_UDP_BYTES ||
        bpf_ntohs(ip->tot_len) != packet->udp_bytes + sizeof(*ip))
        return 0;
    if (packet->source != WEFT_NOTIFICATION_SOURCE || packet->destination >= MULTICAST_AND_UP)
        return 0;
    weft_notification_read(header, &packet->notification);
    if (packet->udp_bytes >= NOTIFICATION_UDP_BYTES + WEFT_NOTIFICATION_PACKET_BYTES &&
        (void *)(header + WEFT_NOTIFICATION_BYTES + WEFT_NOTIFICATION_PACKET_BYTES) <= cursor->end) {
        packet->psn = three_bytes(header + WEFT_NOTIFICATION_BYTES);
        packet->names_packet = 1;
    }
    return packet->notification.type != WEFT_NOTIFICATION_NONE;
}

#endif
