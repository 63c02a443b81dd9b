// Parsing with a cursor: each step returns what comes next, or -1 where the packet ends too soon
// or is not for us.
#ifndef WEFT_ROCE_PARSE_H
#define WEFT_ROCE_PARSE_H

#include <uapi/linux/if_ether.h>
#include <uapi/linux/in.h>
#include <uapi/linux/ip.h>
#include <uapi/linux/udp.h>

#include "notification.h"
#include "roce_consts.h"
#include "telemetry.h"

struct cursor {
    void *at;
    void *end;
};

// What the program needs of a RoCEv2 packet.
struct roce {
    u32 source;       // addresses and queue pair in host order
    u32 destination;
    u32 qpn;
    u32 psn;
    u32 udp_bytes;
    u8 opcode;
    u8 refused;       // an acknowledgement that is a NAK, of whatever kind
    u8 marked;        // CE
    u8 malformed;     // the port is RoCEv2's, and the rest is not
    u32 number;       // of a probe or its answer
    u64 sent_at;      // and when the probe was sent, ns of its sender's clock
    u32 slot;         // number of the slot that it is for, once that is known
    u32 shim_bytes;   // of telemetry between UDP and BTH, which begins at
    u8 *shim;         // NULL: there is none
    u32 names_packet; // of a notification of a queue: 1, the packet `psn` has met it
    struct weft_notification notification;  // of a CNP: its 16 reserved bytes
};

struct bth {
    u8 opcode;
    u8 flags;
    __be16 pkey;
    u8 marks;         // FECN, BECN and six reserved bits
    u8 qpn[3];
    u8 ack_request;
    u8 psn[3];
};

static inline u32 three_bytes(const u8 *at)
{
    return (u32)at[0] << 16 | (u32)at[1] << 8 | at[2];
}

static inline int parse_ethernet(struct cursor *cursor)
{
    struct ethhdr *ethernet = cursor->at;

    if ((void *)(ethernet + 1) > cursor->end)
        return -1;
    cursor->at = ethernet + 1;
    return bpf_ntohs(ethernet->h_proto);
}

static inline int parse_ipv4(struct cursor *cursor, struct roce *packet)
{
    struct iphdr *ip = cursor->at;

    if ((void *)(ip + 1) > cursor->end)
        return -1;
    if (ip->version != 4 || ip->ihl != IPV4_NO_OPTIONS)
        return -1;
    if (ip->frag_off & bpf_htons(IPV4_FRAGMENT))
        return -1;
    packet->source = bpf_ntohl(ip->saddr);
    packet->destination = bpf_ntohl(ip->daddr);
    packet->marked = (ip->tos & ECN_MASK) == ECN_CE;
    cursor->at = ip + 1;
    return ip->protocol;
}

static inline int parse_udp(struct cursor *cursor, struct roce *packet)
{
    struct udphdr *udp = cursor->at;

    if ((void *)(udp + 1) > cursor->end)
        return -1;
    packet->udp_bytes = bpf_ntohs(udp->len);
    packet->malformed = packet->udp_bytes > (u64)(cursor->end - cursor->at);
    cursor->at = udp + 1;
    return bpf_ntohs(udp->dest);
}

// What a receiver of ours has to strip: the cursor goes on behind it.
static inline int parse_shim(struct cursor *cursor, struct roce *packet)
{
    u8 *shim = cursor->at;

    if ((void *)(shim + TELEMETRY_SHIM_BYTES) > cursor->end)
        return -1;
    packet->shim = shim;
    packet->shim_bytes = weft_telemetry_length(shim);
    if (!packet->shim_bytes || packet->udp_bytes < packet->shim_bytes + LEAST_UDP_BYTES)
        return -1;
    cursor->at = shim + packet->shim_bytes;
    return shim[0] & 7;
}

// Only acknowledgements bring telemetry back, and to a receiver it comes with all but these.
static inline int shim_fits(int kind, const struct roce *packet)
{
    if (kind == WEFT_TELEMETRY_RETURNED)
        return packet->opcode == OPCODE_ACK;
    return packet->opcode != OPCODE_ACK && packet->opcode != OPCODE_CNP;
}

// What an acknowledgement has brought back, as far as there is room.
static inline void read_telemetry(const struct cursor *cursor, const struct roce *packet,
                                  struct cc_telemetry *telemetry)
{
    u8 *at = packet->shim;
    u32 bytes = packet->shim_bytes - TELEMETRY_SHIM_BYTES;
    struct weft_telemetry shim;

    if ((void *)(at + TELEMETRY_SHIM_BYTES) > cursor->end)
        return;
    weft_telemetry_read(at, &shim);
    *telemetry = (struct cc_telemetry){};
    telemetry->format = shim.format;
    telemetry->hops = shim.hops;
    telemetry->cut = shim.cut || bytes > CC_TELEMETRY_MOST;
    telemetry->bytes = bytes < CC_TELEMETRY_MOST ? bytes : CC_TELEMETRY_MOST;
    at += TELEMETRY_SHIM_BYTES;
#pragma unroll
    for (u32 i = 0; i < CC_TELEMETRY_MOST; i += 4) {
        void *end = cursor->end;

        // The verifier refuses what clang would make of the comparison: arithmetic on the end.
        asm volatile("" : "+r"(end));
        if (i >= bytes || (void *)(at + i + 4) > end)
            break;
        *(u32 *)(telemetry->data + i) = *(u32 *)(at + i);
    }
}

static inline int parse_bth(struct cursor *cursor, struct roce *packet)
{
    struct bth *bth = cursor->at;

    if ((void *)(bth + 1) > cursor->end)
        return -1;
    packet->opcode = bth->opcode;
    packet->qpn = three_bytes(bth->qpn);
    packet->psn = three_bytes(bth->psn);
    cursor->at = bth + 1;
    return bth->opcode;
}

static inline int parse_aeth(struct cursor *cursor, struct roce *packet)
{
    u8 *aeth = cursor->at;

    if ((void *)(aeth + 4) > cursor->end)
        return -1;
    packet->refused = (aeth[0] & SYNDROME_KIND) != SYNDROME_ACK;
    return aeth[0];
}

// How many packets have come by plane `plane` of `planes`, behind an AETH at which the cursor stands, and by which one the telemetry was
// collected that comes back, plus 1. 0: it does not say.
static inline int read_come(const struct cursor *cursor, u32 plane, u32 planes, u32 *come, u32 *collected)
{
    u8 *echo = (u8 *)cursor->at + AETH_BYTES;
    __be32 *own;

    if ((void *)(echo + PLANE_ECHO_BYTES) > cursor->end)
        return 0;
    if (echo[0] != (PLANE_ECHO | planes))
        return 0;
    *collected = echo[1];
    own = (__be32 *)(echo + PLANE_ECHO_BYTES + 4 * (plane & (PLANES_MOST - 1)));
    if ((void *)(own + 1) > cursor->end)
        return 0;
    *come = bpf_ntohl(*own);
    return 1;
}

static inline int parse_notification(struct cursor *cursor, struct roce *packet)
{
    u8 *reserved = cursor->at;

    if ((void *)(reserved + WEFT_NOTIFICATION_BYTES) > cursor->end)
        return -1;
    if (packet->udp_bytes < CNP_UDP_BYTES)  // the ICRC is none of them
        return -1;
    weft_notification_read(reserved, &packet->notification);
    return packet->notification.type;
}

// A probe of a plane, or the answer to one.
static inline int is_probe(const struct roce *packet)
{
    return packet->opcode == OPCODE_PROBE || packet->opcode == OPCODE_PROBE_ANSWER;
}

static inline int parse_probe(struct cursor *cursor, struct roce *packet)
{
    __be32 *words = cursor->at;

    if ((void *)words + PROBE_BYTES > cursor->end)
        return -1;
    if (packet->udp_bytes != packet->shim_bytes + PROBE_UDP_BYTES)
        return -1;
    packet->sent_at = (u64)bpf_ntohl(words[0]) << 32 | bpf_ntohl(words[1]);
    packet->number = bpf_ntohl(words[2]);
    return 0;
}

// What lies behind BTH, as far as it concerns us.
static inline int parse_extension(struct cursor *cursor, struct roce *packet)
{
    if (packet->opcode == OPCODE_ACK)
        return parse_aeth(cursor, packet);
    if (packet->opcode == OPCODE_CNP)
        return parse_notification(cursor, packet);
    if (is_probe(packet))
        return parse_probe(cursor, packet);
    return 0;
}

// 1: a RoCEv2 packet, perhaps a malformed one; 0: something else.
static inline int parse_roce(struct cursor *cursor, struct roce *packet)
{
    int port, kind = 0;

    if (parse_ethernet(cursor) != ETH_P_IP || parse_ipv4(cursor, packet) != IPPROTO_UDP)
        return 0;
    port = parse_udp(cursor, packet);
    if (port != ROCE_V2_PORT && port != TELEMETRY_PORT)
        return 0;
    if (port == TELEMETRY_PORT)
        kind = parse_shim(cursor, packet);
    if (kind < 0 || parse_bth(cursor, packet) < 0 || parse_extension(cursor, packet) < 0)
        packet->malformed = 1;
    else if (port == TELEMETRY_PORT && !shim_fits(kind, packet))
        packet->malformed = 1;
    return 1;
}

#endif
