/* What switches write into a packet on its way, read from what its receiver returned (docs/wire-formats.md, docs/path-telemetry.md),
 * mirrored in p4src/modules/path_telemetry.p4 and protocols/path_telemetry.py.
 *
 *     PATH_TELEMETRY_HOPS        12 bytes a switch, the last switch first: hop 16, rate 16, at 24, sent 24, queue 16
 *     PATH_TELEMETRY_MOST_USED   one word for the whole path: path 16, used 16
 *
 * Pure, as notification.h: it reads, and knows no algorithm. An algorithm that wants it says CC_TELEMETRY in its name_WANTS.
 */
#ifndef WEFT_PATH_TELEMETRY_H
#define WEFT_PATH_TELEMETRY_H

#include "cc_event.h"
#include "notification.h"

enum { PATH_TELEMETRY_HOPS = 1, PATH_TELEMETRY_MOST_USED = 2 }; /* formats, of struct cc_telemetry */

enum {
    PATH_HOP_BYTES = 12,
    PATH_HOPS_MOST = CC_TELEMETRY_MOST / PATH_HOP_BYTES, /* that are returned: those next to the receiver */
    PATH_SENT_BYTES = 64,                                /* the unit of `sent` */
    PATH_QUEUE_BYTES = 512,                              /* of `queue` */
    PATH_QUEUE_MOST = 0xffff,                            /* that much, or more */
    PATH_WRAPS = 1 << 24,                                /* of `at` (16.8 ms) and `sent` (1 GiB) */
    PATH_USED_ONE = 1 << 13,                             /* path_used where a line is used to the full and nothing waits */
    PATH_USED_MOST = 0xffff,                             /* that much, or more */
};

/* One switch's record. */
struct path_hop {
    weft_u16 hop;   /* its port's number in the fabric, never 0 */
    weft_u64 rate;  /* of the port's line, in bits/s of the fabric, less at most 1/2048 of it */
    weft_u32 at;    /* when the packet left the queue, ns of the fabric modulo PATH_WRAPS */
    weft_u32 sent;  /* what had left the port by then, this packet included, as the line carries it: in PATH_SENT_BYTES modulo PATH_WRAPS */
    weft_u32 queue; /* what waited in the packet's queue then, in PATH_QUEUE_BYTES, at most PATH_QUEUE_MOST */
};

static inline weft_u32 path_word16(const struct cc_telemetry *t, weft_u32 at)
{
    return (weft_u32)t->data[at] << 8 | t->data[at + 1];
}

static inline weft_u32 path_word24(const struct cc_telemetry *t, weft_u32 at)
{
    return path_word16(t, at) << 8 | t->data[at + 2];
}

/* How many records there are, at most PATH_HOPS_MOST; 0 of another format. t->cut says whether there were more. */
static inline weft_u32 path_hops(const struct cc_telemetry *t)
{
    weft_u32 whole = t->bytes / PATH_HOP_BYTES;

    if (t->format != PATH_TELEMETRY_HOPS)
        return 0;
    return whole < PATH_HOPS_MOST ? whole : PATH_HOPS_MOST;
}

/* Reads record `i`, of which 0 is the last switch's. All is 0 where there is no such record. */
static inline void path_hop_read(const struct cc_telemetry *t, weft_u32 i, struct path_hop *out)
{
    weft_u32 from = i * PATH_HOP_BYTES;

    *out = (struct path_hop){};
    if (i >= PATH_HOPS_MOST || from + PATH_HOP_BYTES > t->bytes || t->format != PATH_TELEMETRY_HOPS)
        return;
    out->hop = (weft_u16)path_word16(t, from);
    out->rate = weft_rate_units((weft_u16)path_word16(t, from + 2)) << 16;
    out->at = path_word24(t, from + 4);
    out->sent = path_word24(t, from + 7);
    out->queue = path_word16(t, from + 10);
}

/* How much later or more one `at` or `sent` is than another, which is less than PATH_WRAPS before it. */
static inline weft_u32 path_since(weft_u32 now, weft_u32 then) { return (now - then) & (PATH_WRAPS - 1); }

/* Whether there is a word for the whole path. */
static inline int path_is_used(const struct cc_telemetry *t)
{
    return t->format == PATH_TELEMETRY_MOST_USED && t->bytes >= 4;
}

/* The largest utilisation on the path, in 1 / PATH_USED_ONE, at most PATH_USED_MOST; 0 where none is reported. */
static inline weft_u32 path_used(const struct cc_telemetry *t) { return path_is_used(t) ? path_word16(t, 2) : 0; }

/* Another one is another path, but for one of 65 536; 0 where none is reported. */
static inline weft_u32 path_number(const struct cc_telemetry *t) { return path_is_used(t) ? path_word16(t, 0) : 0; }

/* A path's number with one hop more. */
static inline weft_u16 path_number_with(weft_u16 path, weft_u16 hop) { return (weft_u16)((path << 1 | path >> 15) ^ hop); }

#endif
