/* DCQCN's reaction point: how fast a queue pair may send (Zhu et al., SIGCOMM 2015, section 3 and figure 7).
 *
 * Pure: no kernel calls, no floating point, no 128-bit and no signed arithmetic, so that the BPF program, the endpoint and the
 * simulator run the same lines. `now` is in nanoseconds of any clock and never goes back. Timers have no callbacks:
 * what has elapsed is applied when somebody looks, many periods at once by closed forms.
 */
#ifndef WEFT_DCQCN_H
#define WEFT_DCQCN_H

#include "cc_event.h"

#define DCQCN_ONE ((weft_u64)1 << 32)      /* alpha = 1 */
#define DCQCN_MANY 0xffffffffu             /* where counts of increases stay */
#define DCQCN_RATE_MAX ((weft_u64)1 << 42) /* bits/s: 4.4 Tb/s, so that products fit 64 bits */

struct dcqcn_params {
    weft_u64 line_rate;         /* bits/s, at most DCQCN_RATE_MAX; the first rate, and never exceeded */
    weft_u64 min_rate;          /* bits/s, > 0 */
    weft_u64 rate_ai, rate_hai; /* bits/s: additive and hyper increase */
    weft_u64 alpha_timer_ns;    /* > 0 */
    weft_u64 increase_timer_ns; /* > 0 */
    weft_u64 byte_counter;      /* an increase every so many bytes, too; 0: by time alone */
    weft_u64 cut_interval_ns;   /* a CNP closer than that to the last cut cuts when the interval ends; 0: at once */
    weft_u32 fast_recovery;     /* F: increases that only halve the distance to the target */
    weft_u32 gain_q16;          /* g in 1/65536 */
    weft_u32 clamp_target_rate; /* 1: every cut sets the target; 0: of cuts without an increase between them only the first */
    weft_u32 pad_;
};

struct dcqcn {
    struct dcqcn_params params;
    weft_u64 rate, target;          /* Rc and Rt, bits/s */
    weft_u64 alpha;                 /* in 1/2^32 */
    weft_u64 alpha_at, increase_at; /* when each timer was last due */
    weft_u64 cut_at;
    weft_u64 bytes;                 /* since the byte counter was last due */
    weft_u32 timer_steps, byte_steps; /* increases since the last cut */
    weft_u32 marked;                /* 1: a CNP came since the alpha timer was last due */
    weft_u32 limited;               /* 0: no CNP ever came, the rate is the line's */
    weft_u32 pending;               /* 1: a CNP came within the interval after the last cut and has not cut yet */
    weft_u32 pad_;
};

enum { dcqcn_HEARS = 1 << CC_CNP | 1 << CC_ACKED | 1 << CC_TICK };
enum { dcqcn_WANTS = 0 };

static inline const char *dcqcn_invalid(const struct dcqcn_params *p)
{
    if (!p->line_rate || p->line_rate > DCQCN_RATE_MAX)
        return "line_rate is from 1 to 2^42 bits/s";
    if (!p->min_rate || p->min_rate > p->line_rate)
        return "min_rate is from 1 to line_rate";
    if (p->rate_ai > DCQCN_RATE_MAX || p->rate_hai > DCQCN_RATE_MAX)
        return "rate_ai and rate_hai are at most 2^42 bits/s";
    if (!p->alpha_timer_ns || !p->increase_timer_ns)
        return "alpha_timer_ns and increase_timer_ns are at least 1";
    if (p->gain_q16 > 65536)
        return "gain_q16 is at most 65536";
    if (p->clamp_target_rate > 1)
        return "clamp_target_rate is 0 or 1";
    return 0;
}

static inline void dcqcn_init(struct dcqcn *s, const struct dcqcn_params *params, weft_u64 now)
{
    s->params = *params;
    s->rate = s->target = params->line_rate;
    s->alpha = DCQCN_ONE;
    s->alpha_at = s->increase_at = s->cut_at = now;
    s->bytes = 0;
    s->timer_steps = s->byte_steps = s->marked = s->limited = s->pending = s->pad_ = 0;
}

static inline weft_u64 dcqcn_halved(weft_u64 value, weft_u64 times) { return value >> (times < 63 ? times : 63); }

/* `n` increases by `each`, at once and exactly.
 *
 * One increase is target' = min(target + each, line), rate' = (rate + target') / 2 rounded up. For the distance d between
 * target and rate that is d' = floor((d + each) / 2): d - each is halved each time. Once the target is at the line,
 * d itself is. Rates round up here and down at cuts, so that rounding has no drift.
 */
static inline void dcqcn_climb(struct dcqcn *s, weft_u64 each, weft_u64 n)
{
    weft_u64 distance = s->target - s->rate, room = s->params.line_rate - s->target, whole = n;

    if (each && n > room / each)
        whole = room / each;
    if (distance >= each)
        distance = each + dcqcn_halved(distance - each, whole);
    else if (whole)
        distance = each - dcqcn_halved(each - distance - 1, whole) - 1;
    s->target += each * whole;
    if (n > whole) {
        distance = dcqcn_halved(distance + s->params.line_rate - s->target, n - whole);
        s->target = s->params.line_rate;
    }
    s->rate = s->target - distance;
}

/* `n` increases by one of the two counters, `own`; `other` is what the other one has counted since the last cut. */
static inline void dcqcn_increase(struct dcqcn *s, weft_u32 *own, weft_u32 other, weft_u64 n)
{
    const weft_u64 stages = s->params.fast_recovery, done = *own;
    const weft_u32 both = s->params.byte_counter != 0; /* else one counter decides */
    weft_u64 recovery = 0, additive = n;

    *own = n < DCQCN_MANY - done ? (weft_u32)(done + n) : DCQCN_MANY;
    if (done < stages && (!both || other < stages))
        recovery = n < stages - done ? n : stages - done;
    n -= recovery;
    if (both && other <= stages)
        additive = n;
    else if (done + recovery <= stages)
        additive = n < stages + 1 - done - recovery ? n : stages + 1 - done - recovery;
    else
        additive = 0;
    n -= additive;
    if (recovery)
        dcqcn_climb(s, 0, recovery);
    if (additive)
        dcqcn_climb(s, s->params.rate_ai, additive);
    if (n)
        dcqcn_climb(s, s->params.rate_hai, n);
}

/* alpha without CNPs for `periods`: times (1 - g)^periods, by squaring; off by at most periods / 2^31 of itself. */
static inline weft_u64 dcqcn_decayed(weft_u64 alpha, weft_u64 keep_q16, weft_u64 periods)
{
    const weft_u64 half = (weft_u64)1 << 30;
    weft_u64 power = keep_q16 << 15; /* in 1/2^31, so that squares fit */

    if (periods >> 20) /* less than 2^-23 is left, however small g is */
        return 0;
    for (weft_u32 bit = 0; bit < 20; bit++) {
        if (periods >> bit & 1)
            alpha = ((alpha >> 1) * power + half / 2) >> 30;
        power = (power * power + half) >> 31;
    }
    return alpha;
}

/* What both timers have done up to `now`. */
static inline void dcqcn_timers(struct dcqcn *s, weft_u64 now)
{
    const struct dcqcn_params *p = &s->params;
    weft_u64 keep = 65536 - p->gain_q16, periods;

    if (now >= s->alpha_at + p->alpha_timer_ns) {
        periods = (now - s->alpha_at) / p->alpha_timer_ns;
        s->alpha_at += periods * p->alpha_timer_ns;
        s->alpha = (s->alpha * keep >> 16) + (s->marked ? (weft_u64)p->gain_q16 << 16 : 0);
        s->marked = 0;
        if (periods > 1)
            s->alpha = dcqcn_decayed(s->alpha, keep, periods - 1);
    }
    if (now >= s->increase_at + p->increase_timer_ns) {
        periods = (now - s->increase_at) / p->increase_timer_ns;
        s->increase_at += periods * p->increase_timer_ns;
        dcqcn_increase(s, &s->timer_steps, s->byte_steps, periods);
    }
}

static inline void dcqcn_cut(struct dcqcn *s, weft_u64 now)
{
    const struct dcqcn_params *p = &s->params;

    /* times 1 - alpha / 2, in two parts because the product has 75 bits */
    const weft_u64 keep = 2 * DCQCN_ONE - s->alpha;

    if (p->clamp_target_rate || s->timer_steps || s->byte_steps)
        s->target = s->rate;
    s->rate = ((s->rate >> 16) * keep + ((s->rate & 0xffff) * keep >> 16)) >> 17;
    if (s->rate < p->min_rate)
        s->rate = p->min_rate < s->target ? p->min_rate : s->target;
    s->cut_at = s->increase_at = now;
    s->bytes = 0;
    s->timer_steps = s->byte_steps = s->pending = 0;
}

/* Applies what has elapsed up to `now`: the timers, and a cut that waited for its interval's end. */
static inline void dcqcn_elapse(struct dcqcn *s, weft_u64 now)
{
    weft_u64 due = s->cut_at + s->params.cut_interval_ns;

    if (!s->limited)
        return;
    if (s->pending && now >= due) {
        dcqcn_timers(s, due);
        dcqcn_cut(s, due);
    }
    dcqcn_timers(s, now);
}

static inline void dcqcn_on_event(struct dcqcn *s, const struct cc_event *event, const struct cc_telemetry *telemetry,
                                  weft_u64 now)
{
    const struct dcqcn_params *p = &s->params;

    (void)telemetry;
    dcqcn_elapse(s, now);
    if (event->kind == CC_CNP) {
        if (!s->limited) {
            s->limited = 1;
            s->alpha = DCQCN_ONE;
            s->alpha_at = now;
            s->marked = 1;
            dcqcn_cut(s, now);
            return;
        }
        s->marked = 1;
        if (now - s->cut_at >= p->cut_interval_ns)
            dcqcn_cut(s, now);
        else
            s->pending = 1;
    } else if (event->kind == CC_ACKED && s->limited && p->byte_counter) {
        s->bytes += event->bytes;
        if (s->bytes >= p->byte_counter) {
            weft_u64 due = s->bytes / p->byte_counter;

            s->bytes -= due * p->byte_counter;
            dcqcn_increase(s, &s->byte_steps, s->timer_steps, due);
        }
    }
}

/* The rate at `now` in bits/s; what has elapsed is applied to a copy. */
static inline weft_u64 dcqcn_rate_at(const struct dcqcn *s, weft_u64 now)
{
    struct dcqcn copy;

    if (!s->limited || (!s->pending && now < s->increase_at + s->params.increase_timer_ns))
        return s->rate;
    copy = *s;
    dcqcn_elapse(&copy, now);
    return copy.rate;
}

static inline weft_u64 dcqcn_window_at(const struct dcqcn *s, weft_u64 now)
{
    (void)s, (void)now;
    return CC_NO_LIMIT;
}

static inline weft_u32 dcqcn_path_at(const struct dcqcn *s, const struct cc_choice *choice, weft_u64 now)
{
    (void)s, (void)choice, (void)now;
    return CC_NO_PATH;
}

#endif
#ifdef CC_ALGORITHM
CC_ALGORITHM(dcqcn)
#endif
