/* The plane choice of a network card: when a plane that was lost may be used again, and how fast.
 *
 *   lost ----- a probe each period, by this plane ------> answers come back here, numbered
 *     |
 *     |  hold: no use before `hold_ns` have passed, longer each time it is lost again soon
 *     |  answers: and no use before `answers` of them came in a row
 *     v
 *   back: 1/16 of its line for `ramp_ns`, 1/4 for as long, then all of it
 *
 * One state is one plane of one queue pair. The card calls the functions below; they know no time but `now` (nanoseconds) and
 * remember nothing outside the state. Whole unsigned numbers only: the kernel runs the same header.
 *
 * Grade:  weft grade failover-by-hand --answer my_choice.h
 *
 * It compiles as it is, and never says no: a plane is used again after its first answer. README.md explains the numbered TODOs.
 */
#ifndef PLANE_CHOICE_H
#define PLANE_CHOICE_H

#include "cc_event.h"

#define PLANE_CHOICE_TIME_MOST_NS ((weft_u64)1 << 56)

struct plane_choice_params {
    weft_u64 line_rate;    /* bits/s of the plane */
    weft_u64 min_rate;     /* bits/s: no rate is below it */
    weft_u64 hold_ns;      /* the first hold-down */
    weft_u64 hold_most_ns; /* the longest, at least hold_ns */
    weft_u64 stable_ns;    /* who has stood so long since it was back is forgiven */
    weft_u64 ramp_ns;      /* each of the two steps; 0: no ramp */
    weft_u32 answers;      /* in a row, > 0 */
    weft_u32 pad_;
};

struct plane_choice {
    struct plane_choice_params params;
    weft_u64 rate;     /* bits/s: what the plane may carry, as of the last event or plane_choice_elapse */
    weft_u64 lost_at;  /* the last loss that was heard of; 0: none */
    weft_u64 up_at;    /* since when it has stood */
    weft_u64 hold;     /* ns: the hold-down of the last loss */
    weft_u32 down;     /* it must not be used */
    weft_u32 ramping;  /* its rate is not the line's yet */
    weft_u32 answered; /* in a row */
    weft_u32 number;   /* of the last answer */
    weft_u32 losses;
    weft_u32 pad_;
};

enum { plane_choice_HEARS = 1 << CC_PROBED };
enum { plane_choice_WANTS = CC_PLANES };

static inline const char *plane_choice_invalid(const struct plane_choice_params *p)
{
    if (!p->line_rate || !p->min_rate || p->min_rate > p->line_rate)
        return "min_rate is from 1 to line_rate";
    if (p->hold_most_ns > PLANE_CHOICE_TIME_MOST_NS || p->hold_ns > p->hold_most_ns)
        return "hold_ns is at most hold_most_ns, and that 2^56";
    if (p->stable_ns > PLANE_CHOICE_TIME_MOST_NS || p->ramp_ns > PLANE_CHOICE_TIME_MOST_NS)
        return "stable_ns and ramp_ns are at most 2^56";
    if (!p->answers)
        return "answers is at least 1";
    return 0;
}

static inline void plane_choice_init(struct plane_choice *s, const struct plane_choice_params *params, weft_u64 now)
{
    s->params = *params;
    s->rate = params->line_rate;
    s->lost_at = s->hold = 0;
    s->up_at = now;
    s->down = s->ramping = s->answered = s->number = s->losses = s->pad_ = 0;
}

/* 1/2^shift of the line, but no less than min_rate. */
static inline weft_u64 plane_choice_share(const struct plane_choice *s, weft_u32 shift)
{
    const weft_u64 rate = s->params.line_rate >> shift;

    return rate < s->params.min_rate ? s->params.min_rate : rate;
}

/* Time has passed. */
static inline void plane_choice_elapse(struct plane_choice *s, weft_u64 now)
{
    /* TODO 4: from up_at + ramp_ns on 1/4 of the line, from up_at + 2 * ramp_ns on all of it. */
    (void)s, (void)now;
}

/* The plane was lost, at a time that was not known of yet. */
static inline void plane_choice_lose(struct plane_choice *s, weft_u64 lost_at)
{
    /* TODO 3: how long is it held down? The first time hold_ns. Then twice as long as the last time, at most hold_most_ns, if it is still
     * down, or had stood for less than stable_ns. Else it is forgiven: hold_ns again. */
    s->hold = 0;
    s->lost_at = lost_at;
    s->losses++;
    /* TODO 1: from now on it must not be used. */
}

/* It may be used again. */
static inline void plane_choice_return(struct plane_choice *s, weft_u64 now)
{
    s->down = s->answered = 0;
    s->up_at = now;
    /* TODO 4: it begins with 1/16 of its line. */
    s->rate = s->params.line_rate;
}

/* A probe was answered: its number is event->number, and when the plane was last lost event->lost_at (0: never). */
static inline void plane_choice_on_event(struct plane_choice *s, const struct cc_event *event, const struct cc_telemetry *telemetry,
                                         weft_u64 now)
{
    (void)telemetry;
    plane_choice_elapse(s, now);
    if (event->lost_at > s->lost_at)
        plane_choice_lose(s, event->lost_at);
    if (!s->down)
        return;
    /* TODO 2: how many answers came in a row? Probes count up by one: a number that is not the last one's and 1 begins a new row, and
     * so does a loss. The answer that begins it is its first. */
    s->answered = s->params.answers;
    s->number = event->number;
    if (s->answered < s->params.answers)
        return;
    /* TODO 3: not before the hold-down is over. It began when the plane was lost. */
    plane_choice_return(s, now);
}

/* The rate at `now` in bits/s; what has elapsed is applied to a copy. */
static inline weft_u64 plane_choice_rate_at(const struct plane_choice *s, weft_u64 now)
{
    struct plane_choice copy = *s;

    plane_choice_elapse(&copy, now);
    return copy.rate;
}

static inline weft_u64 plane_choice_window_at(const struct plane_choice *s, weft_u64 now)
{
    (void)s, (void)now;
    return CC_NO_LIMIT;
}

/* May the plane be used? CC_SHUT: no. CC_NO_PATH: yes; which plane a packet takes is the card's to say. */
static inline weft_u32 plane_choice_path_at(const struct plane_choice *s, const struct cc_choice *choice, weft_u64 now)
{
    /* TODO 1: a plane that is down is shut. */
    (void)s, (void)choice, (void)now;
    return CC_NO_PATH;
}

#endif
#ifdef CC_ALGORITHM
CC_ALGORITHM(plane_choice)
#endif
