/* What a source does with fast CNPs: notifications of congestion that switches send it themselves (docs/fast-cnp.md).
 *
 * Pure: no kernel calls, no floating point, no 128-bit and no signed arithmetic; `now` in nanoseconds of any clock that never
 * goes back. A notification says how much is too much (`severity`), and for how long it stands (`validity`, chosen
 * by the controller to cover the loop from that switch to this source and back):
 *
 *   severity s   the rate has to come down to (16 - s) / 16 of what it was when the first notification of a loop came; more
 *                notifications within the loop say the same again and cut only if they say more
 *   severity 0   the queue drains as it should: no cut
 *   any          no increase until the notification's time is over, counted from the last one
 *
 * After that the rate grows by `rate_ai` a step, and by `rate_hai` once `quiet` steps have passed without a notification. A step
 * is as long as the notification stood (the longest of those that stood together), so that what it does is seen before the
 * next one; at least increase_timer_ns.
 */
#ifndef WEFT_FAST_CNP_H
#define WEFT_FAST_CNP_H

#include "cc_event.h"

#define FAST_CNP_SEVERITIES 16
#define FAST_CNP_RATE_MAX ((weft_u64)1 << 42) /* bits/s: 4.4 Tb/s, so that products fit 64 bits */
#define FAST_CNP_TIMER_MAX_NS ((weft_u64)1 << 48)

struct fast_cnp_params {
    weft_u64 line_rate;         /* bits/s, at most FAST_CNP_RATE_MAX; the first rate, and never exceeded */
    weft_u64 min_rate;          /* bits/s, > 0 */
    weft_u64 rate_ai, rate_hai; /* bits/s a step */
    weft_u64 increase_timer_ns; /* the shortest step, > 0 */
    weft_u64 validity_unit_ns;  /* what `validity` counts in, > 0 and below 2^32; grows with the time scale */
    weft_u32 quiet;             /* increases by rate_ai before those by rate_hai */
    weft_u32 pad_;
};

struct fast_cnp {
    struct fast_cnp_params params;
    weft_u64 rate;        /* bits/s */
    weft_u64 base;        /* what it was when this loop began */
    weft_u64 loop_ends;   /* until then notifications speak of the same excess */
    weft_u64 increase_at; /* when a step was last due; in the future while a notification stands */
    weft_u64 step_ns;     /* how long a step is */
    weft_u32 steps;       /* increases since the last notification; stays at `quiet` */
    weft_u32 severity;    /* the worst of this loop */
    weft_u32 limited;     /* 0: no notification ever came, the rate is the line's */
    weft_u32 pad_;
};

enum { fast_cnp_HEARS = 1 << CC_NOTIFIED };
enum { fast_cnp_WANTS = 0 };

static inline const char *fast_cnp_invalid(const struct fast_cnp_params *p)
{
    if (!p->line_rate || p->line_rate > FAST_CNP_RATE_MAX)
        return "line_rate is from 1 to 2^42 bits/s";
    if (!p->min_rate || p->min_rate > p->line_rate)
        return "min_rate is from 1 to line_rate";
    if (p->rate_ai > FAST_CNP_RATE_MAX || p->rate_hai > FAST_CNP_RATE_MAX)
        return "rate_ai and rate_hai are at most 2^42 bits/s";
    if (!p->increase_timer_ns || p->increase_timer_ns > FAST_CNP_TIMER_MAX_NS)
        return "increase_timer_ns is from 1 to 2^48";
    if (!p->validity_unit_ns || p->validity_unit_ns >> 32)
        return "validity_unit_ns is from 1 to 2^32 - 1";
    return 0;
}

static inline void fast_cnp_init(struct fast_cnp *s, const struct fast_cnp_params *params, weft_u64 now)
{
    s->params = *params;
    s->rate = s->base = params->line_rate;
    s->loop_ends = s->increase_at = now;
    s->step_ns = params->increase_timer_ns;
    s->steps = s->severity = s->limited = s->pad_ = 0;
}

static inline void fast_cnp_grow(struct fast_cnp *s, weft_u64 each, weft_u64 n)
{
    const weft_u64 room = s->params.line_rate - s->rate;

    if (each && n > room / each)
        s->rate = s->params.line_rate;
    else
        s->rate += each * n;
}

/* Applies the increases that are due up to `now`. */
static inline void fast_cnp_elapse(struct fast_cnp *s, weft_u64 now)
{
    const struct fast_cnp_params *p = &s->params;
    weft_u64 due, additive;

    if (!s->limited || now < s->increase_at + s->step_ns)
        return;
    due = (now - s->increase_at) / s->step_ns;
    s->increase_at += due * s->step_ns;
    additive = s->steps < p->quiet ? p->quiet - s->steps : 0;
    if (additive > due)
        additive = due;
    s->steps += (weft_u32)additive;
    fast_cnp_grow(s, p->rate_ai, additive);
    fast_cnp_grow(s, p->rate_hai, due - additive);
}

static inline void fast_cnp_on_event(struct fast_cnp *s, const struct cc_event *event, const struct cc_telemetry *telemetry,
                                     weft_u64 now)
{
    const weft_u64 stands = s->params.validity_unit_ns << (event->validity & 15);
    const weft_u32 severity = event->severity & 15;
    weft_u64 cut;

    (void)telemetry;
    fast_cnp_elapse(s, now);
    s->limited = 1;
    if (now >= s->loop_ends) {
        s->base = s->rate;
        s->severity = 0;
        s->loop_ends = now + stands;
    }
    if (severity > s->severity) {
        s->severity = severity;
        cut = s->base / FAST_CNP_SEVERITIES * (FAST_CNP_SEVERITIES - severity);
        if (cut < s->params.min_rate)
            cut = s->params.min_rate;
        if (cut < s->rate)
            s->rate = cut;
    }
    if (now >= s->increase_at)
        s->step_ns = s->params.increase_timer_ns;
    if (s->step_ns < stands)
        s->step_ns = stands;
    if (s->increase_at < now + stands)
        s->increase_at = now + stands;
    s->steps = 0;
}

/* The rate at `now` in bits/s; what has elapsed is applied to a copy. */
static inline weft_u64 fast_cnp_rate_at(const struct fast_cnp *s, weft_u64 now)
{
    struct fast_cnp copy;

    if (!s->limited || now < s->increase_at + s->step_ns)
        return s->rate;
    copy = *s;
    fast_cnp_elapse(&copy, now);
    return copy.rate;
}

static inline weft_u64 fast_cnp_window_at(const struct fast_cnp *s, weft_u64 now)
{
    (void)s, (void)now;
    return CC_NO_LIMIT;
}

static inline weft_u32 fast_cnp_path_at(const struct fast_cnp *s, const struct cc_choice *choice, weft_u64 now)
{
    (void)s, (void)choice, (void)now;
    return CC_NO_PATH;
}

#endif
#ifdef CC_ALGORITHM
CC_ALGORITHM(fast_cnp)
#endif
