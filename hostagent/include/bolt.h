/* Bolt at the sender: a window that switches grant packets to, and that their notifications of queues take from (docs/bolt.md).
 *
 * The rule is Arslan et al.'s (NSDI 2023, algorithms 2 and 3; the authors' ns-3 program, bolt-l4-protocol.cc). Pure: no kernel calls, no
 * floating point, no 128-bit and no signed arithmetic; `now` in nanoseconds of any clock that never goes back.
 *
 *   acknowledgement   that returns a grant (telemetry.h): + one packet. Once a round trip: + ai packets; with a window w below a packet for each
 *                     packet: + ai w
 *   queue             a switch reports how long the queue that a packet met takes to drain. This flow's part of the queue is
 *                     window x drains / trip, trip being the last round trip, or rtt_src + drains if that is longer: what a packet
 *                     behind that queue will have; rtt_src is the time from that packet to the report. The part is to go away in rtt_src, so the
 *                     window shrinks by part x min(1, time since it last did / rtt_src). With a window w below a packet what is changed stays for 1 / w round
 *                     trips: w times that
 *   in whole packets  as published: part by the last round trip alone; a packet less, unless less than rtt_src / part has passed
 *                     since the last one; a window of a packet or less shrinks by max_mdf, and grows by ai for each packet
 *   rate              the line; with a window below a packet one packet in base / window, base being the shortest round trip seen: the last
 *                     one is several old by then (in whole packets: the last one, as published)
 *
 * A report whose packet is not known (cc_event.h) counts as a round trip old. Losses change nothing: none is an event here.
 */
#ifndef WEFT_BOLT_H
#define WEFT_BOLT_H

#include "cc_event.h"
#include "telemetry.h"

#define BOLT_RATE_MAX ((weft_u64)1 << 42)    /* bits/s: 4.4 Tb/s, so that products fit 64 bits */
#define BOLT_TIME_MAX ((weft_u64)1 << 40)    /* ns: 18 minutes; a longer round trip counts as one of it */
#define BOLT_DRAINS_MAX (((weft_u64)1 << 20) - 1)
#define BOLT_WINDOW_MAX ((weft_u64)1 << 34)  /* 2^18 packets, in 1/65536 */
#define BOLT_PACKET_MAX 8192u
#define BOLT_SCALE_MAX ((weft_u32)1 << 20)
#define BOLT_ONE 65536u                      /* of a packet, or of a factor */
#define BOLT_AI_MAX (16 * BOLT_ONE)
#define BOLT_ACKED_MAX ((weft_u64)1 << 24)   /* bytes: at once */

struct bolt_params {
    weft_u64 line_rate;    /* bits/s, at most BOLT_RATE_MAX; the rate of windows of a packet and more */
    weft_u64 min_rate;     /* bits/s, > 0 */
    weft_u64 base_rtt_ns;  /* the fabric's longest without queues, > 0 and below BOLT_TIME_MAX; grows with the time scale */
    weft_u64 first_q16;    /* packets in 1/65536: the first window */
    weft_u64 most_q16;     /* the largest, at most BOLT_WINDOW_MAX */
    weft_u32 least_q16;    /* the smallest, > 0 */
    weft_u32 packet_bytes; /* payload of a packet, from 1 to BOLT_PACKET_MAX */
    weft_u32 ai_q16;       /* packets in 1/65536, at most BOLT_AI_MAX */
    weft_u32 max_mdf_q16;  /* below BOLT_ONE */
    weft_u32 time_scale;   /* ns here for one of the fabric, from 1 to BOLT_SCALE_MAX */
    weft_u32 whole_steps;  /* 1: windows shrink in whole packets, as published */
};

struct bolt {
    struct bolt_params params;
    weft_u64 rate;         /* bits/s */
    weft_u64 window_q16;   /* packets, in 1/65536 */
    weft_u64 rtt_ns;       /* of the last acknowledgement that had one; base_rtt_ns before */
    weft_u64 base_ns;      /* the shortest of them */
    weft_u64 decreased_at; /* ns, when a report last made it smaller */
    weft_u64 grown_at;     /* ns, when it last grew by ai */
    weft_u32 has_decreased;
    weft_u32 pad_;
};

enum { bolt_HEARS = 1 << CC_ACKED | 1 << CC_QUEUED };
enum { bolt_WANTS = CC_WINDOW | CC_RTT | CC_TELEMETRY | CC_GRANTS };

static inline const char *bolt_invalid(const struct bolt_params *p)
{
    if (!p->line_rate || p->line_rate > BOLT_RATE_MAX)
        return "line_rate is from 1 to 2^42 bits/s";
    if (!p->min_rate || p->min_rate > p->line_rate)
        return "min_rate is from 1 to line_rate";
    if (!p->base_rtt_ns || p->base_rtt_ns >= BOLT_TIME_MAX)
        return "base_rtt_ns is from 1 to 2^40 - 1";
    if (p->most_q16 > BOLT_WINDOW_MAX)
        return "most_q16 is at most 2^34";
    if (!p->least_q16 || p->least_q16 > p->first_q16 || p->first_q16 > p->most_q16)
        return "least_q16 is at least 1, first_q16 at least that, and most_q16 at least first_q16";
    if (!p->packet_bytes || p->packet_bytes > BOLT_PACKET_MAX)
        return "packet_bytes is from 1 to 8192";
    if (p->ai_q16 > BOLT_AI_MAX)
        return "ai_q16 is at most 2^20";
    if (p->max_mdf_q16 >= BOLT_ONE)
        return "max_mdf_q16 is below 65536";
    if (!p->time_scale || p->time_scale > BOLT_SCALE_MAX)
        return "time_scale is from 1 to 2^20";
    if (p->whole_steps > 1)
        return "whole_steps is 0 or 1";
    return 0;
}

/* The rate of a window, in bits/s; `rtt_ns` > 0. */
static inline weft_u64 bolt_rate_of(const struct bolt_params *p, weft_u64 window_q16, weft_u64 rtt_ns)
{
    weft_u64 rate = p->line_rate;

    if (window_q16 < BOLT_ONE)
        rate = window_q16 * (p->packet_bytes * 8) * 1000000000 / rtt_ns / BOLT_ONE;
    if (rate < p->min_rate)
        rate = p->min_rate;
    return rate < p->line_rate ? rate : p->line_rate;
}

static inline void bolt_init(struct bolt *s, const struct bolt_params *params, weft_u64 now)
{
    s->params = *params;
    s->window_q16 = params->first_q16;
    s->rtt_ns = params->base_rtt_ns;
    s->base_ns = params->base_rtt_ns;
    s->rate = bolt_rate_of(params, params->first_q16, params->base_rtt_ns);
    s->decreased_at = now;
    s->grown_at = now;
    s->has_decreased = s->pad_ = 0;
}

/* The window's whole packets, in bytes. */
static inline weft_u64 bolt_bytes(const struct bolt *s) { return s->window_q16 / BOLT_ONE * s->params.packet_bytes; }

static inline void bolt_take(struct bolt *s, weft_u64 window_q16)
{
    const struct bolt_params *p = &s->params;

    if (window_q16 < p->least_q16)
        window_q16 = p->least_q16;
    if (window_q16 > p->most_q16)
        window_q16 = p->most_q16;
    s->window_q16 = window_q16;
    s->rate = bolt_rate_of(p, window_q16, p->whole_steps ? s->rtt_ns : s->base_ns);
}

static inline void bolt_acked(struct bolt *s, const struct cc_event *event, const struct cc_telemetry *telemetry, weft_u64 now)
{
    const weft_u64 bytes = event->bytes < BOLT_ACKED_MAX ? event->bytes : BOLT_ACKED_MAX;
    weft_u64 window = s->window_q16;

    if (event->rtt_ns)
        s->rtt_ns = event->rtt_ns < BOLT_TIME_MAX ? event->rtt_ns : BOLT_TIME_MAX;
    if (s->rtt_ns < s->base_ns)
        s->base_ns = s->rtt_ns;
    if (!bytes) {
        bolt_take(s, window);
        return;
    }
    if (window < BOLT_ONE) {
        window += s->params.ai_q16 * bytes / s->params.packet_bytes * (s->params.whole_steps ? BOLT_ONE : window) / BOLT_ONE;
        s->grown_at = now;
    } else if (now - s->grown_at >= s->rtt_ns) {
        window += s->params.ai_q16;
        s->grown_at = now;
    }
    if (telemetry && telemetry->format == TELEMETRY_GRANTS && telemetry->bytes >= TELEMETRY_GRANTS_BYTES &&
        (telemetry->data[0] & (GRANT_MORE | GRANT_QUEUED)) == GRANT_MORE)
        window += BOLT_ONE;
    bolt_take(s, window);
}

/* This flow's part of a queue, in packets in 1/65536, over a round trip of `trip_ns` here. */
static inline weft_u64 bolt_part(const struct bolt *s, weft_u64 drains_ns, weft_u64 trip_ns)
{
    const weft_u64 trip = trip_ns / s->params.time_scale;

    return s->window_q16 * drains_ns / (trip ? trip : 1);
}

/* By how much a window shrinks, as published. */
static inline weft_u64 bolt_whole_step(const struct bolt *s, weft_u64 drains_ns, weft_u64 rtt_src_ns, weft_u64 since_ns)
{
    const weft_u64 part = bolt_part(s, drains_ns, s->rtt_ns);

    if (s->window_q16 <= BOLT_ONE)
        return s->window_q16 * s->params.max_mdf_q16 / BOLT_ONE;
    return part && since_ns >= rtt_src_ns * BOLT_ONE / part ? BOLT_ONE : 0;
}

static inline weft_u64 bolt_step(const struct bolt *s, weft_u64 drains_ns, weft_u64 rtt_src_ns, weft_u64 since_ns)
{
    const weft_u64 behind = rtt_src_ns + drains_ns * s->params.time_scale;
    weft_u64 part = bolt_part(s, drains_ns, behind > s->rtt_ns ? behind : s->rtt_ns);

    if (s->window_q16 < BOLT_ONE)
        part = part * s->window_q16 / BOLT_ONE;
    if (since_ns >= rtt_src_ns)
        return part;
    return part * (since_ns * BOLT_ONE / rtt_src_ns) / BOLT_ONE;
}

static inline void bolt_queued(struct bolt *s, const struct cc_event *event, weft_u64 now)
{
    const weft_u64 drains = event->drains_ns < BOLT_DRAINS_MAX ? event->drains_ns : BOLT_DRAINS_MAX;
    const weft_u64 since = s->has_decreased ? now - s->decreased_at : CC_NO_LIMIT;
    weft_u64 rtt_src = event->rtt_ns ? event->rtt_ns : s->rtt_ns, step;

    rtt_src = rtt_src < BOLT_TIME_MAX ? rtt_src : BOLT_TIME_MAX;
    step = s->params.whole_steps ? bolt_whole_step(s, drains, rtt_src, since) : bolt_step(s, drains, rtt_src, since);
    if (!step)
        return;
    s->has_decreased = 1;
    s->decreased_at = now;
    bolt_take(s, step < s->window_q16 ? s->window_q16 - step : 0);
}

static inline void bolt_on_event(struct bolt *s, const struct cc_event *event, const struct cc_telemetry *telemetry, weft_u64 now)
{
    if (event->kind == CC_QUEUED)
        bolt_queued(s, event, now);
    else
        bolt_acked(s, event, telemetry, now);
}

static inline void bolt_elapse(struct bolt *s, weft_u64 now) { (void)s, (void)now; }

static inline weft_u64 bolt_rate_at(const struct bolt *s, weft_u64 now)
{
    (void)now;
    return s->rate;
}

static inline weft_u64 bolt_window_at(const struct bolt *s, weft_u64 now)
{
    (void)now;
    return bolt_bytes(s);
}

static inline weft_u32 bolt_path_at(const struct bolt *s, const struct cc_choice *choice, weft_u64 now)
{
    (void)s, (void)choice, (void)now;
    return CC_NO_PATH;
}

#endif
#ifdef CC_ALGORITHM
CC_ALGORITHM(bolt)
#endif
