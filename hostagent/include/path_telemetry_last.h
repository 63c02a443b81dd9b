/* What each hop of a path has done since the acknowledgement before: the last record of each is kept, 12 bytes a hop.
 *
 * Pure, as path_telemetry.h, which says what a record is. A hop is known by its port's number: where another one stands in
 * its place the path has changed, and what lies between the two records is nobody's. The same holds where nothing came for so long
 * that counters may have wrapped, where a record went back, and where two are of one nanosecond.
 */
#ifndef WEFT_PATH_TELEMETRY_LAST_H
#define WEFT_PATH_TELEMETRY_LAST_H

#include "path_telemetry.h"

#define PATH_BACK_NS ((weft_u32)1 << 22)             /* a record more than that ahead of our own clock went back instead */
#define PATH_SILENT_NS (PATH_WRAPS - PATH_BACK_NS)   /* 12.6 ms without any: the next one says nothing of the time between */
#define PATH_SENT_WRAPS ((weft_u64)1 << 17)          /* x 10^9: units of 2^16 bits/s x ns in which a line carries 2^30 bytes */

struct path_hop_last {
    weft_u32 at, sent;
    weft_u16 hop, queue; /* hop 0: there is none */
};

struct path_last {
    weft_u64 heard_at; /* ns of our own clock */
    weft_u32 heard;    /* 0: never */
    struct path_hop_last hops[PATH_HOPS_MOST];
};

/* One hop between two acknowledgements. */
struct path_between {
    weft_u64 units; /* the port's line in 2^16 bits/s of the fabric */
    weft_u32 ns;    /* of the fabric; 0: not known, and neither is `sent` */
    weft_u32 sent;  /* in PATH_SENT_BYTES */
    weft_u32 queue; /* in PATH_QUEUE_BYTES; the less of both records, where both are */
    weft_u32 is_new; /* 1: nothing is known of what it did before */
};

static inline void path_last_init(struct path_last *s)
{
    s->heard_at = 0;
    s->heard = 0;
    for (weft_u32 i = 0; i < PATH_HOPS_MOST; i++)
        s->hops[i] = (struct path_hop_last){};
}

/* How much time of the fabric has passed since the last records, which came for `time_scale` times as long here. */
static inline weft_u64 path_last_passed(struct path_last *s, weft_u32 time_scale, weft_u64 now)
{
    weft_u64 passed = s->heard ? (now - s->heard_at) / time_scale : CC_NO_LIMIT;

    s->heard_at = now;
    s->heard = 1;
    return passed;
}

/* Takes record `i`. 0: there is none. */
static inline int path_last_take(struct path_last *s, const struct cc_telemetry *t, weft_u32 i, weft_u64 passed,
                                 struct path_between *out)
{
    struct path_hop_last *last = &s->hops[i];
    struct path_hop hop;

    path_hop_read(t, i, &hop);
    out->units = hop.rate >> 16;
    out->ns = out->sent = 0;
    out->is_new = 1;
    out->queue = hop.queue;
    if (!hop.hop || !out->units) {
        last->hop = 0;
        return 0;
    }
    if (last->hop == hop.hop && passed < PATH_SILENT_NS) {
        weft_u32 ns = path_since(hop.at, last->at);

        if (!ns) {
            out->is_new = 0;
            return 1; /* what was sent in between is counted when time has passed */
        }
        if (ns <= passed + PATH_BACK_NS && ns * out->units < PATH_SENT_WRAPS * 1000000000) {
            out->ns = ns;
            out->is_new = 0;
            out->sent = path_since(hop.sent, last->sent);
            if (last->queue < out->queue)
                out->queue = last->queue;
        }
    }
    last->at = hop.at;
    last->sent = hop.sent;
    last->hop = hop.hop;
    last->queue = (weft_u16)hop.queue;
    return 1;
}

/* Loads are in 1 / PATH_LOAD_ONE of a line, and stay at PATH_LOAD_MOST, so that products with times fit 64 bits. */
#define PATH_LOAD_ONE ((weft_u64)1 << 26)
#define PATH_LOAD_MOST (64 * PATH_LOAD_ONE)
#define PATH_ROUND_TRIP_MOST ((weft_u64)1 << 31) /* ns of the fabric */

/* How much of a line `rate` is, in bits/s; and of one of `units` x 2^16 bits/s, units below 2^27. */
static inline weft_u64 path_load_of(weft_u64 rate, weft_u64 units)
{
    weft_u64 load;

    if (rate >> 54)
        return PATH_LOAD_MOST;
    load = (rate << 10) / units;
    return load < PATH_LOAD_MOST ? load : PATH_LOAD_MOST;
}

/* What share of a line `count` x 2^`unit` bytes are in `ns`, of which units x ns are from 1 to 2^58, and the bytes at most 2^30. One division:
 * 10^9 is 1953125 x 2^9, and what would not fit 64 bits is rounded off the divisor, by less than a millionth where a load is below PATH_LOAD_MOST. */
static inline weft_u64 path_share(weft_u64 count, weft_u32 unit, weft_u64 units, weft_u64 ns)
{
    const weft_u32 shift = unit + 3 + 9 + 26 - 16; /* bits, 10^9, PATH_LOAD_ONE, 2^16 bits/s */
    const weft_u64 line = units * ns, bits = count * 1953125;
    weft_u64 load;

    if (!(bits >> (64 - shift)))
        load = (bits << shift) / line;
    else
        load = (bits << (shift - 10)) / (line >> 10 ? line >> 10 : 1);
    return load < PATH_LOAD_MOST ? load : PATH_LOAD_MOST;
}

/* What a hop has sent in the time between, which is known. */
static inline weft_u64 path_sent_load(const struct path_between *hop) { return path_share(hop->sent, 6, hop->units, hop->ns); }

/* What waits there, if it is to be sent within a round trip: queue / (line x round trip). */
static inline weft_u64 path_queue_load(const struct path_between *hop, weft_u64 round_trip_ns)
{
    return path_share(hop->queue, 9, hop->units, round_trip_ns);
}

/* `average` after `ns` of `load`, over a round trip of at most PATH_ROUND_TRIP_MOST. */
static inline weft_u64 path_load_average(weft_u64 average, weft_u64 load, weft_u64 ns, weft_u64 round_trip_ns)
{
    if (ns >= round_trip_ns)
        return load;
    return (average * (round_trip_ns - ns) + load * ns + round_trip_ns / 2) / round_trip_ns;
}

/* What a rate of at most 2^42 bits/s sends in less than 2^34 ns, in bytes. */
static inline weft_u64 path_bytes_in(weft_u64 rate, weft_u64 ns)
{
    return (rate / 1000000000 * ns + rate % 1000000000 * ns / 1000000000) / 8;
}

#endif
