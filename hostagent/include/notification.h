/* The fabric's one signal (docs/wire-formats.md), mirrored from p4src/include/notification.p4.
 *
 * Pure: no kernel calls, no allocation, so that BPF programs, the endpoint and the simulator share
 * it. Bytes are written and read one by one: the same on every byte order, at any alignment.
 */
#ifndef WEFT_NOTIFICATION_H
#define WEFT_NOTIFICATION_H

#include "weft_types.h"

#define WEFT_NOTIFICATION_BYTES 16
#define WEFT_NOTIFICATION_CELL_BYTES 256
/* In a datagram: the UDP port that it goes to, and the address that every switch writes as the source. */
#define WEFT_NOTIFICATION_PORT 28791
#define WEFT_NOTIFICATION_SOURCE 0xc0000008u /* 192.0.0.8 */
#define WEFT_NOTIFICATION_TYPES 16

enum weft_notification_type {
    WEFT_NOTIFICATION_NONE = 0, /* a stock CNP: 16 bytes of zeros */
    WEFT_NOTIFICATION_CONGESTION = 1,
    WEFT_NOTIFICATION_LINK_DOWN = 2,
    WEFT_NOTIFICATION_LINK_UP = 3,
    WEFT_NOTIFICATION_DEGRADED = 4,
    WEFT_NOTIFICATION_PATH_QUALITY = 5,
    WEFT_NOTIFICATION_HEARTBEAT = 6, /* between switches alone */
    WEFT_NOTIFICATION_PORT_STATE = 7, /* inside a switch alone */
    WEFT_NOTIFICATION_QUEUE = 8, /* to the source of the packet that its body names */
};

/* Widths in bits on the wire are in the comments; values are in host order. */
struct weft_notification {
    weft_u8 type;             /*  4 */
    weft_u8 severity;         /*  4 */
    weft_u8 hops;             /*  4 */
    weft_u8 validity;         /*  4 */
    weft_u16 switch_id;       /* 16 */
    weft_u16 port;            /* 12 */
    weft_u16 sequence;        /* 12 */
    weft_u32 destination;     /* 32 */
    weft_u32 destination_qp;  /* 24 */
    weft_u16 queue;           /* 16; of congestion: a rate, as weft_rate_units reads it; of QUEUE: weft_notification_drains_ns */
};

/* A rate of 16 bits, in units of 2^16 bits/s: the lower 12 bits times 2 to the upper 4; 65 kb/s to 8.8 Tb/s, to 1/2048 from 268 Mb/s
 * on. 0: none is said. */
#define WEFT_RATE_MOST ((weft_u64)0xfff << 15)

static inline weft_u64 weft_rate_units(weft_u16 rate) { return (weft_u64)(rate & 0xfff) << (rate >> 12); }

/* The largest one that is not above so many units. */
static inline weft_u16 weft_rate_of(weft_u64 units)
{
    weft_u16 exponent = 0;

    if (units > WEFT_RATE_MOST)
        units = WEFT_RATE_MOST;
    for (; units > 0xfff; units >>= 1)
        exponent++;
    return (weft_u16)(exponent << 12 | units);
}

/* Values are cut to their widths. */
static inline void weft_notification_write(const struct weft_notification *n,
                                           weft_u8 out[WEFT_NOTIFICATION_BYTES])
{
    out[0] = (weft_u8)((n->type & 0xf) << 4 | (n->severity & 0xf));
    out[1] = (weft_u8)((n->hops & 0xf) << 4 | (n->validity & 0xf));
    out[2] = (weft_u8)(n->switch_id >> 8);
    out[3] = (weft_u8)n->switch_id;
    out[4] = (weft_u8)(n->port >> 4);
    out[5] = (weft_u8)((n->port & 0xf) << 4 | (n->sequence >> 8 & 0xf));
    out[6] = (weft_u8)n->sequence;
    out[7] = (weft_u8)(n->destination >> 24);
    out[8] = (weft_u8)(n->destination >> 16);
    out[9] = (weft_u8)(n->destination >> 8);
    out[10] = (weft_u8)n->destination;
    out[11] = (weft_u8)(n->destination_qp >> 16);
    out[12] = (weft_u8)(n->destination_qp >> 8);
    out[13] = (weft_u8)n->destination_qp;
    out[14] = (weft_u8)(n->queue >> 8);
    out[15] = (weft_u8)n->queue;
}

static inline void weft_notification_read(const weft_u8 in[WEFT_NOTIFICATION_BYTES],
                                          struct weft_notification *n)
{
    n->type = in[0] >> 4;
    n->severity = in[0] & 0xf;
    n->hops = in[1] >> 4;
    n->validity = in[1] & 0xf;
    n->switch_id = (weft_u16)(in[2] << 8 | in[3]);
    n->port = (weft_u16)(in[4] << 4 | in[5] >> 4);
    n->sequence = (weft_u16)((in[5] & 0xf) << 8 | in[6]);
    n->destination = (weft_u32)in[7] << 24 | (weft_u32)in[8] << 16 | (weft_u32)in[9] << 8 | in[10];
    n->destination_qp = (weft_u32)in[11] << 16 | (weft_u32)in[12] << 8 | in[13];
    n->queue = (weft_u16)(in[14] << 8 | in[15]);
}

/* Whether hosts keep notifications of that type. */
static inline int weft_notification_known(weft_u8 type)
{
    return (type >= WEFT_NOTIFICATION_CONGESTION && type <= WEFT_NOTIFICATION_PATH_QUALITY) || type == WEFT_NOTIFICATION_QUEUE;
}

/* Of type QUEUE: how long the queue takes to drain, in ns of the fabric, at most 2^20 - 1: that long or longer. */
static inline weft_u32 weft_notification_drains_ns(const struct weft_notification *n)
{
    return (weft_u32)(n->severity & 0xf) << 16 | n->queue;
}

/* And what is behind the header: the PSN of the packet that met the queue (24), and 8 reserved bits. */
enum { WEFT_NOTIFICATION_PACKET_BYTES = 4 };

#endif
