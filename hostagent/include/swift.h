/* Swift at the sender: a window that round trips hold near a target (docs/swift.md).
 *
 * The rule is Kumar et al.'s (SIGCOMM 2020, algorithm 1 and section 3.5; Broadcom/csg-htsim, swift.cpp). Pure: no kernel calls, no
 * floating point, no 128-bit and no signed arithmetic; `now` in nanoseconds of any clock that never goes back.
 *
 *   delay        the round trip of the packet that is acknowledged, whole: from when the sender's card gave it to its line until the
 *                acknowledgement was there. Hosts have no part of their own in it, so that there is one window and not two
 *   base         the shortest round trip that this queue pair has seen, or the fabric's longest, whichever is less. By one number for
 *                all, near flows would fill queues until they are as far away as the others
 *   target       base + what may wait at hops + flow scaling: alpha / root of the window in packets - offset, from 0 to fs_range, and of
 *                that base's part of the fabric's longest. Many flows have small windows, and only a longer queue keeps them apart
 *   increase     delay < target: by ai packets a window; window below a packet: by ai packets for each that is acknowledged
 *   decrease     else, once a round trip: by beta (delay - target) / delay of itself, and at most by max_mdf
 *   rate         the line; with a window below a packet one packet in round trip / window
 *
 * An acknowledgement whose round trip is not known (cc_event.h) changes nothing. Losses change nothing either: none is an event here.
 */
#ifndef WEFT_SWIFT_H
#define WEFT_SWIFT_H

#include "cc_event.h"

#define SWIFT_RATE_MAX ((weft_u64)1 << 42)  /* bits/s: 4.4 Tb/s, so that products fit 64 bits */
#define SWIFT_TIME_MAX ((weft_u64)1 << 40)  /* ns: 18 minutes; a longer round trip counts as one of it */
#define SWIFT_WINDOW_MAX ((weft_u64)1 << 34) /* 2^18 packets, in 1/65536 */
#define SWIFT_PACKET_MAX 8192u
#define SWIFT_ONE 65536u                    /* of a packet, or of a factor */
#define SWIFT_AI_MAX (16 * SWIFT_ONE)
#define SWIFT_ACKED_MAX ((weft_u64)1 << 40) /* in 1/65536 of a packet */
#define SWIFT_ROOT_STEPS 30                 /* from 2^25 down to any root, each at least by a half, and four to be exact */

struct swift_params {
    weft_u64 line_rate;      /* bits/s, at most SWIFT_RATE_MAX; the rate of windows of a packet and more */
    weft_u64 min_rate;       /* bits/s, > 0 */
    weft_u64 base_rtt_ns;    /* the fabric's longest without queues, > 0 and below SWIFT_TIME_MAX; times grow with the time scale */
    weft_u64 hops_ns;        /* what may wait at all hops of a way together, at most SWIFT_TIME_MAX */
    weft_u64 fs_alpha_ns;    /* of flow scaling, at most SWIFT_TIME_MAX: with a window of one packet, but for the offset */
    weft_u64 fs_offset_ns;   /* at most SWIFT_TIME_MAX */
    weft_u64 fs_range_ns;    /* what flow scaling adds at most, at most SWIFT_TIME_MAX */
    weft_u64 first_q16;      /* packets in 1/65536: the first window */
    weft_u64 most_q16;       /* the largest, at most SWIFT_WINDOW_MAX */
    weft_u32 least_q16;      /* the smallest, > 0 */
    weft_u32 packet_bytes;   /* payload of a packet, from 1 to SWIFT_PACKET_MAX */
    weft_u32 ai_q16;         /* packets in 1/65536, at most SWIFT_AI_MAX */
    weft_u32 beta_q16;       /* at most SWIFT_ONE */
    weft_u32 max_mdf_q16;    /* below SWIFT_ONE */
    weft_u32 own_base;       /* 1: the base is the shortest round trip seen; 0: base_rtt_ns for all */
};

struct swift {
    struct swift_params params;
    weft_u64 rate;         /* bits/s */
    weft_u64 window_q16;   /* packets, in 1/65536 */
    weft_u64 decreased_at; /* ns, when it last became smaller */
    weft_u64 base_ns;
    weft_u64 target_ns;    /* that the last delay was compared with; 0: none was */
    weft_u32 has_decreased;
    weft_u32 pad_;
};

enum { swift_HEARS = 1 << CC_ACKED };
enum { swift_WANTS = CC_WINDOW | CC_RTT };

static inline const char *swift_invalid(const struct swift_params *p)
{
    if (!p->line_rate || p->line_rate > SWIFT_RATE_MAX)
        return "line_rate is from 1 to 2^42 bits/s";
    if (!p->min_rate || p->min_rate > p->line_rate)
        return "min_rate is from 1 to line_rate";
    if (!p->base_rtt_ns || p->base_rtt_ns >= SWIFT_TIME_MAX)
        return "base_rtt_ns is from 1 to 2^40 - 1";
    if (p->hops_ns > SWIFT_TIME_MAX || p->fs_alpha_ns > SWIFT_TIME_MAX || p->fs_offset_ns > SWIFT_TIME_MAX || p->fs_range_ns > SWIFT_TIME_MAX)
        return "hops_ns, fs_alpha_ns, fs_offset_ns and fs_range_ns are at most 2^40";
    if (p->most_q16 > SWIFT_WINDOW_MAX)
        return "most_q16 is at most 2^34";
    if (!p->least_q16 || p->least_q16 > p->first_q16 || p->first_q16 > p->most_q16)
        return "least_q16 is at least 1, first_q16 at least that, and most_q16 at least first_q16";
    if (!p->packet_bytes || p->packet_bytes > SWIFT_PACKET_MAX)
        return "packet_bytes is from 1 to 8192";
    if (p->ai_q16 > SWIFT_AI_MAX)
        return "ai_q16 is at most 2^20";
    if (p->beta_q16 > SWIFT_ONE || p->max_mdf_q16 >= SWIFT_ONE)
        return "beta_q16 is at most 65536, and max_mdf_q16 below it";
    if (p->own_base > 1)
        return "own_base is 0 or 1";
    return 0;
}

/* The rate of a window, in bits/s; `rtt_ns` > 0. */
static inline weft_u64 swift_rate_of(const struct swift_params *p, weft_u64 window_q16, weft_u64 rtt_ns)
{
    weft_u64 rate = p->line_rate;

    if (window_q16 < SWIFT_ONE)
        rate = window_q16 * (p->packet_bytes * 8) * 1000000000 / rtt_ns / SWIFT_ONE;
    if (rate < p->min_rate)
        rate = p->min_rate;
    return rate < p->line_rate ? rate : p->line_rate;
}

static inline void swift_init(struct swift *s, const struct swift_params *params, weft_u64 now)
{
    s->params = *params;
    s->window_q16 = params->first_q16;
    s->rate = swift_rate_of(params, params->first_q16, params->base_rtt_ns);
    s->decreased_at = now;
    s->base_ns = params->base_rtt_ns;
    s->target_ns = 0;
    s->has_decreased = s->pad_ = 0;
}

/* The root of packets in 1/65536, in 1/65536: Newton's, without a branch that the verifier would have to follow. */
static inline weft_u64 swift_root(weft_u64 packets_q16)
{
    const weft_u64 of = packets_q16 * SWIFT_ONE;
    weft_u64 root = (weft_u64)1 << 25;

    for (int i = 0; i < SWIFT_ROOT_STEPS; i++)
        root = (root + of / root) / 2;
    return root;
}

static inline weft_u64 swift_target(const struct swift *s)
{
    const struct swift_params *p = &s->params;
    weft_u64 scaling = p->fs_alpha_ns * SWIFT_ONE / swift_root(s->window_q16);

    scaling = scaling > p->fs_offset_ns ? scaling - p->fs_offset_ns : 0;
    scaling = scaling < p->fs_range_ns ? scaling : p->fs_range_ns;
    return s->base_ns + p->hops_ns + scaling * (s->base_ns * SWIFT_ONE / p->base_rtt_ns) / SWIFT_ONE;
}

/* What `bytes` that were acknowledged add to the window. */
static inline weft_u64 swift_increase(const struct swift *s, weft_u64 bytes)
{
    weft_u64 acked = bytes < SWIFT_ACKED_MAX / SWIFT_ONE ? bytes * SWIFT_ONE / s->params.packet_bytes : SWIFT_ACKED_MAX;

    return s->params.ai_q16 * acked / (s->window_q16 > SWIFT_ONE ? s->window_q16 : SWIFT_ONE);
}

/* What a delay above its target takes from the window. */
static inline weft_u64 swift_decrease(const struct swift *s, weft_u64 delay_ns)
{
    const struct swift_params *p = &s->params;
    weft_u64 part = p->beta_q16 * (delay_ns - s->target_ns) / delay_ns;

    return s->window_q16 * (part < p->max_mdf_q16 ? part : p->max_mdf_q16) / SWIFT_ONE;
}

static inline void swift_on_event(struct swift *s, const struct cc_event *event, const struct cc_telemetry *telemetry,
                                  weft_u64 now)
{
    const struct swift_params *p = &s->params;
    const weft_u64 delay = event->rtt_ns < SWIFT_TIME_MAX ? event->rtt_ns : SWIFT_TIME_MAX;
    weft_u64 window = s->window_q16;

    (void)telemetry;
    if (!delay)
        return;
    if (p->own_base && delay < s->base_ns)
        s->base_ns = delay;
    s->target_ns = swift_target(s);
    if (delay < s->target_ns) {
        window += swift_increase(s, event->bytes);
    } else if (!s->has_decreased || now - s->decreased_at >= delay) {
        window -= swift_decrease(s, delay);
        s->has_decreased = 1;
        s->decreased_at = now;
    }
    if (window < p->least_q16)
        window = p->least_q16;
    if (window > p->most_q16)
        window = p->most_q16;
    s->window_q16 = window;
    s->rate = swift_rate_of(p, window, delay);
}

static inline void swift_elapse(struct swift *s, weft_u64 now) { (void)s, (void)now; }

static inline weft_u64 swift_rate_at(const struct swift *s, weft_u64 now)
{
    (void)now;
    return s->rate;
}

static inline weft_u64 swift_window_at(const struct swift *s, weft_u64 now)
{
    (void)now;
    return s->window_q16 * s->params.packet_bytes / SWIFT_ONE;
}

static inline weft_u32 swift_path_at(const struct swift *s, const struct cc_choice *choice, weft_u64 now)
{
    (void)s, (void)choice, (void)now;
    return CC_NO_PATH;
}

#endif
#ifdef CC_ALGORITHM
CC_ALGORITHM(swift)
#endif
