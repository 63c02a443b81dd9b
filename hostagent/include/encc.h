/* ENCC at the sender: a rate and a window from what each hop says of itself (docs/encc.md).
 *
 * The rule is HPCC's (Li et al., SIGCOMM 2019; alibaba-edu/High-Precision-Congestion-Control, rdma-hw.cc). Pure: no kernel calls, no
 * floating point, no 128-bit and no signed arithmetic; `now` in nanoseconds of any clock that never goes back.
 *
 *   load of a hop        what it sent since the last acknowledgement / its line + its queue / (its line x base round trip, or that
 *                        time where it is longer: who hears seldom has as long to drain it). The first queue_free bytes of a queue
 *                        count as none: a packet finds others in front of it, never its own, so that slow flows see longer queues
 *   U                    that of the most loaded hop, averaged over a base round trip
 *   rate                 U >= eta, or after max_stage increases: reference x eta / U + increase; else: reference + increase
 *   window               rate x base round trip
 *   reference            the rate, once a round trip: when something is acknowledged that was sent after it was last set. Every
 *                        acknowledgement changes the rate, but from the same reference, so that one congestion counts once
 *
 * The increase is a number, or grows with the root of the rate: between the line and a quarter of it by rate_ai to a half of it, and so on,
 * linearly in between. Many slow flows then add less in all, and a slow flow still adds more of what it has than a fast one.
 *
 * The first acknowledgement of what was sent after the reference was set changes nothing but U: a part of what it measures was sent
 * before. To many packets in flight that is nothing; to one in flight it is all, and its rate would answer everything twice.
 *
 * A hop that nothing is known of since the last acknowledgement (path_telemetry_last.h) has its queue alone; where that is so of all
 * hops, at least eta: such an acknowledgement multiplies the rate by no more than one. Where switches say the largest U of the path themselves it is taken as it is.
 */
#ifndef WEFT_ENCC_H
#define WEFT_ENCC_H

#include "path_telemetry_last.h"

#define ENCC_RATE_MAX ((weft_u64)1 << 42)       /* bits/s: 4.4 Tb/s, so that products fit 64 bits */
#define ENCC_ROUND_TRIP_MAX ((weft_u64)1 << 34) /* ns */
#define ENCC_ETA_MAX 131072u                    /* 2.0 */
#define ENCC_QUARTERS 6                         /* below the line's 4096th the increase stays */

struct encc_params {
    weft_u64 line_rate;   /* bits/s, at most ENCC_RATE_MAX; the first rate, and never exceeded */
    weft_u64 min_rate;    /* bits/s, > 0 */
    weft_u64 rate_ai;     /* bits/s: what each round trip adds, or at the line */
    weft_u64 base_rtt_ns; /* the longest of the fabric without queues, > 0 and below ENCC_ROUND_TRIP_MAX; grows with the time scale */
    weft_u32 eta_q16;     /* the load that is aimed at, in 1/65536, > 0 and at most ENCC_ETA_MAX */
    weft_u32 max_stage;   /* round trips in a row that only add */
    weft_u32 time_scale;  /* ns here for one of the fabric, in which switches count, > 0 */
    weft_u32 by_root;     /* 1: the increase grows with the root of the rate; 0: it is a number */
    weft_u32 queue_free;  /* bytes that may wait at a hop and count as none */
    weft_u32 pad_;
};

struct encc {
    struct encc_params params;
    weft_u64 rate, reference; /* bits/s */
    weft_u64 used;            /* U, in 1 / PATH_LOAD_ONE */
    weft_u64 committed_at;    /* ns, when the reference was last set */
    weft_u64 sent_at;         /* ns, when the packet was sent that was last acknowledged */
    weft_u64 rtt_ns;          /* the last one that is known; 0: none */
    weft_u32 stage;           /* increases since U was last at eta */
    weft_u32 begun;           /* 1: committed_at counts */
    struct path_last last;
};

enum { encc_HEARS = 1 << CC_ACKED };
enum { encc_WANTS = CC_WINDOW | CC_RTT | CC_TELEMETRY };

static inline const char *encc_invalid(const struct encc_params *p)
{
    if (!p->line_rate || p->line_rate > ENCC_RATE_MAX)
        return "line_rate is from 1 to 2^42 bits/s";
    if (!p->min_rate || p->min_rate > p->line_rate)
        return "min_rate is from 1 to line_rate";
    if (p->rate_ai > ENCC_RATE_MAX)
        return "rate_ai is at most 2^42 bits/s";
    if (!p->eta_q16 || p->eta_q16 > ENCC_ETA_MAX)
        return "eta_q16 is from 1 to 131072";
    if (!p->time_scale)
        return "time_scale is at least 1";
    if (p->by_root > 1)
        return "by_root is 0 or 1";
    if (p->base_rtt_ns < p->time_scale || p->base_rtt_ns >= ENCC_ROUND_TRIP_MAX)
        return "base_rtt_ns is from 1 ns of the fabric to 2^34 - 1";
    if (p->base_rtt_ns / p->time_scale > PATH_ROUND_TRIP_MOST)
        return "base_rtt_ns is at most 2^31 ns of the fabric";
    return 0;
}

static inline void encc_init(struct encc *s, const struct encc_params *params, weft_u64 now)
{
    s->params = *params;
    s->rate = s->reference = params->line_rate;
    s->used = s->rtt_ns = 0;
    s->committed_at = s->sent_at = now;
    s->stage = s->begun = 0;
    path_last_init(&s->last);
}

static inline weft_u64 encc_eta(const struct encc *s) { return s->params.eta_q16 * (PATH_LOAD_ONE >> 16); }

/* Takes the most loaded hop into U. */
static inline void encc_measure(struct encc *s, const struct cc_telemetry *telemetry, weft_u64 now)
{
    const weft_u64 round_trip_ns = s->params.base_rtt_ns / s->params.time_scale;
    weft_u64 passed = path_last_passed(&s->last, s->params.time_scale, now), most = 0, ns = passed;
    const weft_u32 free = s->params.queue_free / PATH_QUEUE_BYTES;
    weft_u32 known = 0;

    for (weft_u32 i = 0; i < PATH_HOPS_MOST; i++) {
        struct path_between hop;
        weft_u64 load;

        if (!path_last_take(&s->last, telemetry, i, passed, &hop))
            continue;
        hop.queue = hop.queue > free ? hop.queue - free : 0;
        load = path_queue_load(&hop, hop.ns > round_trip_ns ? hop.ns : round_trip_ns);
        if (hop.ns) {
            load += path_sent_load(&hop);
            known = 1;
        }
        if (load > most) {
            most = load;
            ns = hop.ns ? hop.ns : passed;
        }
    }
    if (most > PATH_LOAD_MOST)
        most = PATH_LOAD_MOST;
    if (!known && most < encc_eta(s))
        most = encc_eta(s);
    s->used = path_load_average(s->used, most, ns, round_trip_ns);
}

/* The reference times eta / U. */
static inline weft_u64 encc_towards_eta(const struct encc *s)
{
    weft_u64 used_q20 = s->used / (PATH_LOAD_ONE >> 20);

    return s->reference * s->params.eta_q16 * 16 / (used_q20 ? used_q20 : 1);
}

/* What a round trip adds to the reference. */
static inline weft_u64 encc_increase(const struct encc *s)
{
    weft_u64 increase = s->params.rate_ai, top = s->params.line_rate, below;

    if (!s->params.by_root)
        return increase;
    for (weft_u32 i = 0; i < ENCC_QUARTERS; i++) {
        if (s->reference >= top / 4)
            break;
        top /= 4;
        increase /= 2;
    }
    below = top / 4;
    if (s->reference < below || top == below)
        return increase / 2;
    return increase / 2 + (increase / 2 * ((s->reference - below) * 65536 / (top - below)) >> 16);
}

/* `sent_at`, `before`: of the packet that is acknowledged, and of the one that was before. */
static inline void encc_react(struct encc *s, weft_u64 sent_at, weft_u64 before, weft_u64 now)
{
    const struct encc_params *p = &s->params;
    weft_u64 rate = s->reference;
    weft_u32 stage = 0;

    if (sent_at >= s->committed_at && before < s->committed_at)
        return;
    if (s->used >= encc_eta(s) || s->stage >= p->max_stage)
        rate = encc_towards_eta(s);
    else
        stage = s->stage + 1;
    rate += encc_increase(s);
    if (rate < p->min_rate)
        rate = p->min_rate;
    if (rate > p->line_rate)
        rate = p->line_rate;
    s->rate = rate;
    if (before < s->committed_at)
        return;
    s->reference = rate;
    s->stage = stage;
    s->committed_at = now;
}

static inline void encc_on_event(struct encc *s, const struct cc_event *event, const struct cc_telemetry *telemetry,
                                 weft_u64 now)
{
    const weft_u64 before = s->sent_at;

    if (event->rtt_ns)
        s->rtt_ns = event->rtt_ns;
    if (!telemetry)
        return;
    if (path_is_used(telemetry))
        s->used = path_used(telemetry) * (PATH_LOAD_ONE / PATH_USED_ONE);
    else if (path_hops(telemetry))
        encc_measure(s, telemetry, now);
    else
        return;
    s->sent_at = now - (s->rtt_ns ? s->rtt_ns : s->params.base_rtt_ns);
    if (!s->begun) {
        s->begun = 1;
        s->committed_at = now;
        return;
    }
    encc_react(s, s->sent_at, before, now);
}

static inline void encc_elapse(struct encc *s, weft_u64 now) { (void)s, (void)now; }

static inline weft_u64 encc_rate_at(const struct encc *s, weft_u64 now)
{
    (void)now;
    return s->rate;
}

static inline weft_u64 encc_window_at(const struct encc *s, weft_u64 now)
{
    (void)now;
    return path_bytes_in(s->rate, s->params.base_rtt_ns);
}

static inline weft_u32 encc_path_at(const struct encc *s, const struct cc_choice *choice, weft_u64 now)
{
    (void)s, (void)choice, (void)now;
    return CC_NO_PATH;
}

#endif
#ifdef CC_ALGORITHM
CC_ALGORITHM(encc)
#endif
