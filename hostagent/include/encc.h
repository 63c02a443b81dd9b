/* ENCC at the sender: a rate and a window from what each hop says of itself (docs/encc.md).
 *
 * The rule is HPCC's (Li et al., SIGCOMM 2019; alibaba-edu/High-Precision-Congestion-Control, rdma-hw.cc). Pure: no kernel calls, no
 * floating point, no 128-bit and no signed arithmetic; `now` in nanoseconds of any clock that never goes back.
 *
 *   round trip           the fabric's longest without queues, halved as long as a packet was acknowledged in less
 *   load of a hop        what it sent since the last acknowledgement / its line + its queue / (its line x round trip, or that
 *                        time where it is longer: who hears seldom has as long to drain it). The first queue_free bytes of a queue
 *                        count as none: a packet finds others in front of it, never its own, so that slow flows see longer queues
 *   U of a hop           its load, averaged over twice the least round trip that a packet of this path took: one holds too few packets where lines
 *                        are slow, and what one packet more or less makes of U decides who gets more; over longer times rates swing
 *   rate of a hop        U >= eta, or after max_stage increases: reference x eta / U + increase; else: reference + increase
 *                        (the increase is that of the reference before a cut for what was sent before it)
 *   rate                 the least of the hops': each hop's comes to the fair share of its line, so that who passes several full
 *                        links gets its share of the fullest (HPCC's MULTI_RATE)
 *   window               rate x round trip
 *   references           the hops' rates, at most twice the least, once a round trip: when something is acknowledged that was sent
 *                        after they were last set. Every acknowledgement changes the rate, but from the same references, so that one
 *                        congestion counts once
 *
 * The increase is a number, or grows with the rate: by its root from a sixteenth of the line on (rate_ai at the line, a half of it at
 * a quarter), by a third down to a 64th, and by its root below that, linearly in between. Many slow flows then add less in all, and a slow flow still
 * adds more of what it has than a fast one.
 *
 * The first acknowledgement of what was sent after the references were set changes nothing but U: a part of what it measures was sent
 * before. To many packets in flight that is nothing; to one in flight it is all, and its rate would answer everything twice.
 *
 * A rate that falls below half of its reference between two commits is a commit, too: what is sent from now on is so much slower. What
 * was sent before and is acknowledged later was sent by the references before the cut, and may cut again, but not raise. Without that a queue that drains
 * brings back the rate that filled it.
 *
 * A hop that nothing is known of since the last acknowledgement (path_telemetry_last.h) begins with the flow's rate and a load of
 * at least eta, so that its first word multiplies the rate by no more than one, and the path with a round trip that was never halved.
 * Where switches say the largest U of the path themselves it is taken as it is, and the path is one hop.
 */
#ifndef WEFT_ENCC_H
#define WEFT_ENCC_H

#include "path_telemetry_last.h"

#define ENCC_RATE_MAX ((weft_u64)1 << 42)       /* bits/s: 4.4 Tb/s, so that products fit 64 bits */
#define ENCC_ROUND_TRIP_MAX ((weft_u64)1 << 34) /* ns */
#define ENCC_ETA_MAX 131072u                    /* 2.0 */
#define ENCC_CUT_MOST ((weft_u64)1 << 21)       /* in 1/1024, so that products with rates fit 64 bits */
#define ENCC_AVERAGE 2                          /* round trips */
#define ENCC_UNKNOWN 4                          /* of the last round trip that is known, where a packet has none */
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

/* What a hop would have this flow send, were it the only one. */
struct encc_hop {
    weft_u64 reference; /* bits/s */
    weft_u64 increase;  /* bits/s: what a round trip adds to it */
    weft_u64 added;     /* bits/s: what it added before the cuts that cut_q10 is of */
    weft_u64 used;      /* U, in 1 / PATH_LOAD_ONE */
    weft_u64 rate;      /* bits/s: what the last acknowledgement makes of the reference */
};

struct encc {
    struct encc_params params;
    weft_u64 rate, reference; /* bits/s */
    weft_u64 increase;        /* bits/s: of that reference */
    weft_u64 used;            /* U of the most loaded hop, in 1 / PATH_LOAD_ONE */
    weft_u64 committed_at;    /* ns, when the references were last set */
    weft_u64 sent_at;         /* ns, when the packet was sent that was last acknowledged */
    weft_u64 rtt_ns;          /* the last one that is known; 0: none */
    weft_u64 faster_q10;      /* by how much what is acknowledged was sent faster than the references */
    weft_u64 least;           /* bits/s, of the hops' rates */
    weft_u64 cut_q10;          /* by how much what was sent before committed_at was sent faster, in 1/1024; 0: not by much */
    weft_u64 least_rtt_ns;    /* that a packet of this path took, at most base_rtt_ns */
    weft_u32 halvings;        /* of base_rtt_ns, to this path's */
    weft_u32 begun;           /* 1: committed_at counts */
    weft_u32 stage;           /* increases since U was last at eta */
    weft_u32 next_stage;      /* where this acknowledgement commits */
    weft_u32 hops;            /* that the last acknowledgement told of; 1: the path as one */
    weft_u32 path;            /* its number, where it is told as one */
    struct encc_hop each[PATH_HOPS_MOST];
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
    if (p->base_rtt_ns / p->time_scale > PATH_ROUND_TRIP_MOST / ENCC_AVERAGE)
        return "base_rtt_ns is at most 2^30 ns of the fabric";
    return 0;
}

/* What a round trip adds to a reference. */
static inline weft_u64 encc_increase(const struct encc *s, weft_u64 reference)
{
    weft_u64 top = s->params.line_rate, at_top = s->params.rate_ai, below, at_below = at_top / 2;

    if (!s->params.by_root)
        return at_top;
    for (weft_u32 i = 0; i < ENCC_QUARTERS; i++) {
        if (reference >= top / 4)
            break;
        top /= 4;
        at_top = at_below;
        at_below = i == 1 ? at_top / 3 : at_top / 2;
    }
    below = top / 4;
    if (reference < below || top == below)
        return at_below;
    return at_below + ((at_top - at_below) * ((reference - below) * 65536 / (top - below)) >> 16);
}

static inline void encc_init(struct encc *s, const struct encc_params *params, weft_u64 now)
{
    s->params = *params;
    s->rate = s->reference = s->least = params->line_rate;
    s->increase = encc_increase(s, s->reference);
    s->used = s->rtt_ns = s->cut_q10 = 0;
    s->least_rtt_ns = params->base_rtt_ns;
    s->faster_q10 = 1024;
    s->committed_at = s->sent_at = now;
    s->halvings = s->begun = s->stage = s->next_stage = s->hops = s->path = 0;
    for (weft_u32 i = 0; i < PATH_HOPS_MOST; i++)
        s->each[i] = (struct encc_hop){.reference = params->line_rate, .increase = s->increase, .added = s->increase, .rate = params->line_rate};
    path_last_init(&s->last);
}

static inline weft_u64 encc_eta(const struct encc *s) { return s->params.eta_q16 * (PATH_LOAD_ONE >> 16); }

/* This path's round trip without queues, within a factor of two. */
static inline weft_u64 encc_trip_ns(const struct encc *s) { return s->params.base_rtt_ns >> s->halvings; }

/* An acknowledged packet took so long: one halving an acknowledgement will do. */
static inline void encc_took(struct encc *s, weft_u64 rtt_ns)
{
    weft_u64 half = encc_trip_ns(s) / 2;

    if (rtt_ns >= s->params.time_scale && rtt_ns < s->least_rtt_ns)
        s->least_rtt_ns = rtt_ns;
    if (rtt_ns && rtt_ns < half && half >= s->params.time_scale)
        s->halvings++;
}

/* Takes each hop's load into its U. */
static inline void encc_measure(struct encc *s, const struct cc_telemetry *telemetry, weft_u64 now)
{
    const weft_u64 passed = path_last_passed(&s->last, s->params.time_scale, now);
    const weft_u64 round_trip_ns = encc_trip_ns(s) / s->params.time_scale;
    const weft_u64 average_ns = ENCC_AVERAGE * (s->least_rtt_ns / s->params.time_scale);
    const weft_u32 free = s->params.queue_free / PATH_QUEUE_BYTES;

    s->hops = 0;
    s->used = 0;
    for (weft_u32 i = 0; i < PATH_HOPS_MOST; i++) {
        struct path_between hop;
        weft_u64 load;

        if (!path_last_take(&s->last, telemetry, i, passed, &hop))
            continue;
        s->hops = i + 1;
        hop.queue = hop.queue > free ? hop.queue - free : 0;
        load = 0;
        if (hop.queue)
            load = hop.queue ? path_queue_load(&hop, hop.ns > round_trip_ns ? hop.ns : round_trip_ns) : 0;
        if (hop.ns)
            load += path_sent_load(&hop);
        if (load > PATH_LOAD_MOST)
            load = PATH_LOAD_MOST;
        if (hop.is_new) {
            s->halvings = 0;
            s->least_rtt_ns = s->params.base_rtt_ns;
            s->each[i].reference = s->reference;
            s->each[i].increase = s->each[i].added = s->increase;
            s->each[i].used = load > encc_eta(s) ? load : encc_eta(s);
        } else if (hop.ns)
            s->each[i].used = path_load_average(s->each[i].used, load, hop.ns, average_ns);
        if (s->each[i].used > s->used)
            s->used = s->each[i].used;
    }
}

/* Takes what switches say themselves. A line is used once at most: what is above that waits, and has as long to drain as here. */
static inline void encc_take_used(struct encc *s, const struct cc_telemetry *telemetry, weft_u64 now)
{
    const weft_u64 passed = path_last_passed(&s->last, s->params.time_scale, now);
    const weft_u64 round_trip_ns = s->params.base_rtt_ns / s->params.time_scale;
    weft_u64 used = path_used(telemetry) * (PATH_LOAD_ONE / PATH_USED_ONE);

    if (used > PATH_LOAD_ONE && passed > round_trip_ns)
        used = PATH_LOAD_ONE + (used - PATH_LOAD_ONE) * round_trip_ns / passed;
    if (s->path != path_number(telemetry)) {
        s->halvings = 0;
        s->least_rtt_ns = s->params.base_rtt_ns;
    }
    s->path = path_number(telemetry);
    s->hops = 1;
    s->used = s->each[0].used = used;
}

/* The reference times eta / U. */
static inline weft_u64 encc_towards_eta(const struct encc *s, weft_u64 reference, weft_u64 used)
{
    weft_u64 used_q20 = used / (PATH_LOAD_ONE >> 20);

    return reference * s->params.eta_q16 * 16 / (used_q20 ? used_q20 : 1);
}

/* What a hop makes of its reference, and the least of all hops. What it finds goes into the state and not from hand to hand: the
 * kernel's verifier follows what it knows of a value, and would follow each hop once for each way through those before it. */
static inline void encc_hop_rate(struct encc *s, weft_u32 i)
{
    const struct encc_params *p = &s->params;
    weft_u64 reference = s->each[i].reference * s->faster_q10 >> 10, rate;

    if (reference > p->line_rate)
        reference = p->line_rate;
    rate = reference;
    if (s->each[i].used >= encc_eta(s) || s->stage >= p->max_stage) {
        rate = encc_towards_eta(s, reference, s->each[i].used);
        s->next_stage = 0;
    }
    rate += s->faster_q10 > 1024 ? s->each[i].added : s->each[i].increase;
    if (rate < p->min_rate)
        rate = p->min_rate;
    if (rate > p->line_rate)
        rate = p->line_rate;
    s->each[i].rate = rate;
    if (rate < s->least)
        s->least = rate;
}

/* The rates become the references of what is sent from now on. */
static inline void encc_commit(struct encc *s, weft_u64 now)
{
    const weft_u64 most = 2 * s->least;

    s->reference = s->least;
    s->increase = encc_increase(s, s->reference);
    for (weft_u32 i = 0; i < PATH_HOPS_MOST; i++) {
        if (i >= s->hops)
            continue;
        if (!s->cut_q10)
            s->each[i].added = s->each[i].increase;
        s->each[i].reference = s->each[i].rate < most ? s->each[i].rate : most;
        s->each[i].increase = encc_increase(s, s->each[i].reference);
    }
    s->committed_at = now;
}

/* By how much slower `to` is than `from`, in 1/1024, at most ENCC_CUT_MOST. */
static inline weft_u64 encc_slower_q10(weft_u64 from, weft_u64 to)
{
    weft_u64 q10 = (from << 10) / to;

    return q10 < ENCC_CUT_MOST ? q10 : ENCC_CUT_MOST;
}

/* What was sent before the references were set: it may cut, and deep cuts are commits. */
static inline void encc_react_to_old(struct encc *s, weft_u64 now)
{
    weft_u64 cut_q10 = s->cut_q10;

    if (cut_q10) {
        if (s->least >= s->rate - s->rate / 8) /* or rounding would cut again and again */
            return;
        cut_q10 = cut_q10 * encc_slower_q10(s->reference, s->least) >> 10;
    } else if (s->least < s->reference / 2)
        cut_q10 = encc_slower_q10(s->reference, s->least);
    s->rate = s->least;
    if (!cut_q10)
        return;
    encc_commit(s, now);
    s->cut_q10 = cut_q10 < ENCC_CUT_MOST ? cut_q10 : ENCC_CUT_MOST;
}

/* `sent_at`, `before`: of the packet that is acknowledged, and of the one that was before. */
static inline void encc_react(struct encc *s, weft_u64 sent_at, weft_u64 before, weft_u64 now)
{
    const int old = sent_at < s->committed_at;

    if (!old && before < s->committed_at)
        return;
    s->least = s->params.line_rate;
    s->next_stage = s->stage + 1;
    s->faster_q10 = 1024;
    if (old && s->cut_q10)
        s->faster_q10 = s->cut_q10;
    for (weft_u32 i = 0; i < PATH_HOPS_MOST; i++)
        if (i < s->hops)
            encc_hop_rate(s, i);
    if (old) {
        encc_react_to_old(s, now);
        return;
    }
    s->rate = s->least;
    s->stage = s->next_stage;
    s->cut_q10 = 0;
    encc_commit(s, now);
}

/* When the packet was sent that is acknowledged. Where that is not known (it was sent twice, say, and may have waited long) early
 * enough not to take what was sent before a commit for what came after it. */
static inline weft_u64 encc_sent_at(const struct encc *s, weft_u64 rtt_ns, weft_u64 now)
{
    if (!rtt_ns)
        rtt_ns = ENCC_UNKNOWN * (s->rtt_ns ? s->rtt_ns : s->params.base_rtt_ns);
    return now > rtt_ns ? now - rtt_ns : 0;
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
        encc_take_used(s, telemetry, now);
    else if (path_hops(telemetry))
        encc_measure(s, telemetry, now);
    else
        return;
    encc_took(s, event->rtt_ns);
    s->sent_at = encc_sent_at(s, event->rtt_ns, now);
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
    return path_bytes_in(s->rate, encc_trip_ns(s));
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
