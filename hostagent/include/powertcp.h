/* PowerTCP at the sender: a rate and a window from what each hop sends, what waits there, and how fast that grows (docs/powertcp.md).
 *
 * The rule is Addanki, Michel and Schmid's (NSDI 2022, algorithm 1; inet-tub/ns3-datacenter, rdma-hw.cc, UpdateRatePower). Pure: no
 * kernel calls, no floating point, no 128-bit and no signed arithmetic; `now` in nanoseconds of any clock that never goes back.
 *
 *   current of a hop     what it sent since the last acknowledgement and by how much its queue grew: what came, / its line
 *   voltage              1 + its queue / (its line x base round trip, or that time where it is longer: who hears seldom
 *                        has as long to drain it)
 *   power                current x voltage: 1 where a line is used to the full and nothing waits
 *   smoothed             that of the most powerful hop, averaged over a base round trip
 *   rate                 gamma x (the rate of then x eta / smoothed + increase) + (1 - gamma) x the rate
 *   window               rate x base round trip
 *   the rate of then     that with which the acknowledged packet was sent. It is remembered once a round trip, so that of two
 *                        that are kept one is meant: the later one for what was sent after it was remembered
 *
 * A queue that shrinks makes less current than its line, and may do so down to none. A hop that nothing is known of since the last
 * acknowledgement (path_telemetry_last.h) sends its line if something waits there, and has no say else; where nothing is known of all
 * hops the power is at least eta: such an acknowledgement multiplies the rate by no more than one.
 */
#ifndef WEFT_POWERTCP_H
#define WEFT_POWERTCP_H

#include "path_telemetry_last.h"

#define POWERTCP_RATE_MAX ((weft_u64)1 << 42)       /* bits/s: 4.4 Tb/s, so that products fit 64 bits */
#define POWERTCP_ROUND_TRIP_MAX ((weft_u64)1 << 34) /* ns */
#define POWERTCP_ONE 65536u
#define POWERTCP_ETA_MAX 131072u                    /* 2.0 */
#define POWERTCP_CURRENT_LEAST (PATH_LOAD_ONE / 2)
#define POWERTCP_LINES_MOST 16                      /* no acknowledgement aims at more than so many lines */

struct powertcp_params {
    weft_u64 line_rate;   /* bits/s, at most POWERTCP_RATE_MAX; the first rate, and never exceeded */
    weft_u64 min_rate;    /* bits/s, > 0 */
    weft_u64 rate_ai;     /* bits/s: the increase; the queue of all flows comes to the sum of theirs x base round trip */
    weft_u64 base_rtt_ns; /* the longest of the fabric without queues, > 0 and below POWERTCP_ROUND_TRIP_MAX; grows with the time scale */
    weft_u32 eta_q16;     /* the power that is aimed at, in 1/65536, > 0 and at most POWERTCP_ETA_MAX */
    weft_u32 gamma_q16;   /* the new one's part in the rate, in 1/65536, from 1 to POWERTCP_ONE */
    weft_u32 time_scale;  /* ns here for one of the fabric, in which switches count, > 0 */
    weft_u32 pad_;
};

struct powertcp {
    struct powertcp_params params;
    weft_u64 rate;             /* bits/s */
    weft_u64 reference, older; /* bits/s: remembered at committed_at, and a round trip before */
    weft_u64 power;            /* smoothed, in 1 / PATH_LOAD_ONE */
    weft_u64 committed_at;     /* ns */
    weft_u64 rtt_ns;           /* the last one that is known; 0: none */
    weft_u32 begun;            /* 1: committed_at counts */
    weft_u32 pad_;
    struct path_last last;
};

enum { powertcp_HEARS = 1 << CC_ACKED };
enum { powertcp_WANTS = CC_WINDOW | CC_RTT | CC_TELEMETRY };

static inline const char *powertcp_invalid(const struct powertcp_params *p)
{
    if (!p->line_rate || p->line_rate > POWERTCP_RATE_MAX)
        return "line_rate is from 1 to 2^42 bits/s";
    if (!p->min_rate || p->min_rate > p->line_rate)
        return "min_rate is from 1 to line_rate";
    if (p->rate_ai > POWERTCP_RATE_MAX)
        return "rate_ai is at most 2^42 bits/s";
    if (!p->eta_q16 || p->eta_q16 > POWERTCP_ETA_MAX)
        return "eta_q16 is from 1 to 131072";
    if (!p->gamma_q16 || p->gamma_q16 > POWERTCP_ONE)
        return "gamma_q16 is from 1 to 65536";
    if (!p->time_scale)
        return "time_scale is at least 1";
    if (p->base_rtt_ns < p->time_scale || p->base_rtt_ns >= POWERTCP_ROUND_TRIP_MAX)
        return "base_rtt_ns is from 1 ns of the fabric to 2^34 - 1";
    if (p->base_rtt_ns / p->time_scale > PATH_ROUND_TRIP_MOST)
        return "base_rtt_ns is at most 2^31 ns of the fabric";
    return 0;
}

static inline void powertcp_init(struct powertcp *s, const struct powertcp_params *params, weft_u64 now)
{
    s->params = *params;
    s->rate = s->reference = s->older = params->line_rate;
    s->power = s->rtt_ns = 0;
    s->committed_at = now;
    s->begun = s->pad_ = 0;
    path_last_init(&s->last);
}

static inline weft_u64 powertcp_eta(const struct powertcp *s) { return s->params.eta_q16 * (PATH_LOAD_ONE >> 16); }

/* What came to a hop, as a share of its line: what left, and what its queue, now of `queue`, has more than `before`; at least the least.
 * Neither this nor the next makes another struct of a hop: the verifier would follow each of them through five hops. */
static inline weft_u64 powertcp_current(const struct path_between *hop, weft_u32 before, weft_u32 queue)
{
    const weft_u32 units = PATH_QUEUE_BYTES / PATH_SENT_BYTES, in = hop->sent + queue * units, out = before * units;
    const weft_u64 came = in > out ? in - out : 0;
    const weft_u64 current = path_load_of(came * ((weft_u64)PATH_SENT_BYTES * 8 * 1000000000) / hop->ns, hop->units);

    return current > POWERTCP_CURRENT_LEAST ? current : POWERTCP_CURRENT_LEAST;
}

/* A hop's power, below 2^39. `before`: the queue of its last record. */
static inline weft_u64 powertcp_of_hop(const struct path_between *hop, weft_u32 before, weft_u32 queue, weft_u64 round_trip_ns)
{
    const weft_u64 ns = hop->ns > round_trip_ns ? hop->ns : round_trip_ns;
    const weft_u64 waits = path_load_of(queue * ((weft_u64)PATH_QUEUE_BYTES * 8 * 1000000000) / ns, hop->units);
    const weft_u64 current = hop->ns ? powertcp_current(hop, before, queue) : queue ? PATH_LOAD_ONE : 0;

    /* 2^32 and a little more each: six bits less, so that the product fits. */
    return (current >> 6) * (PATH_LOAD_ONE + waits) / (PATH_LOAD_ONE >> 6);
}

/* Takes the most powerful hop into the smoothed power. */
static inline void powertcp_measure(struct powertcp *s, const struct cc_telemetry *telemetry, weft_u64 now)
{
    const weft_u64 round_trip_ns = s->params.base_rtt_ns / s->params.time_scale;
    weft_u64 passed = path_last_passed(&s->last, s->params.time_scale, now), most = 0, ns = passed;
    weft_u32 known = 0;

    for (weft_u32 i = 0; i < PATH_HOPS_MOST; i++) {
        struct path_between hop;
        weft_u32 before = s->last.hops[i].queue;
        weft_u64 power;

        if (!path_last_take(&s->last, telemetry, i, passed, &hop))
            continue;
        power = powertcp_of_hop(&hop, before, hop.ns ? s->last.hops[i].queue : hop.queue, round_trip_ns);
        if (hop.ns)
            known = 1;
        if (power > most) {
            most = power;
            ns = hop.ns ? hop.ns : passed;
        }
    }
    if (most > PATH_LOAD_MOST)
        most = PATH_LOAD_MOST;
    if (!known && most < powertcp_eta(s))
        most = powertcp_eta(s);
    s->power = path_load_average(s->power, most, ns, round_trip_ns);
}

/* `sent_at`: of the packet that is acknowledged. */
static inline void powertcp_react(struct powertcp *s, weft_u64 sent_at, weft_u64 now)
{
    const struct powertcp_params *p = &s->params;
    const weft_u32 is_later = sent_at >= s->committed_at;
    const weft_u64 most = p->line_rate * POWERTCP_LINES_MOST;
    weft_u64 power_q20 = s->power / (PATH_LOAD_ONE >> 20), rate;

    rate = (is_later ? s->reference : s->older) * p->eta_q16 * 16 / (power_q20 ? power_q20 : 1);
    if (rate > most)
        rate = most;
    rate = ((rate + p->rate_ai) * p->gamma_q16 + s->rate * (POWERTCP_ONE - p->gamma_q16)) / POWERTCP_ONE;
    if (rate < p->min_rate)
        rate = p->min_rate;
    if (rate > p->line_rate)
        rate = p->line_rate;
    s->rate = rate;
    if (!is_later)
        return;
    s->older = s->reference;
    s->reference = rate;
    s->committed_at = now;
}

static inline void powertcp_on_event(struct powertcp *s, const struct cc_event *event, const struct cc_telemetry *telemetry,
                                     weft_u64 now)
{
    if (event->rtt_ns)
        s->rtt_ns = event->rtt_ns;
    if (!telemetry || !path_hops(telemetry))
        return;
    powertcp_measure(s, telemetry, now);
    if (!s->begun) {
        s->begun = 1;
        s->committed_at = now;
        return;
    }
    powertcp_react(s, now - (s->rtt_ns ? s->rtt_ns : s->params.base_rtt_ns), now);
}

static inline void powertcp_elapse(struct powertcp *s, weft_u64 now) { (void)s, (void)now; }

static inline weft_u64 powertcp_rate_at(const struct powertcp *s, weft_u64 now)
{
    (void)now;
    return s->rate;
}

static inline weft_u64 powertcp_window_at(const struct powertcp *s, weft_u64 now)
{
    (void)now;
    return path_bytes_in(s->rate, s->params.base_rtt_ns);
}

static inline weft_u32 powertcp_path_at(const struct powertcp *s, const struct cc_choice *choice, weft_u64 now)
{
    (void)s, (void)choice, (void)now;
    return CC_NO_PATH;
}

#endif
#ifdef CC_ALGORITHM
CC_ALGORITHM(powertcp)
#endif
