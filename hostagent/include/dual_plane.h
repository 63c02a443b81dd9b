/* Whether a plane may be used: failover, hold-down, failback and ramp of one interface of a queue pair (docs/dual-plane.md).
 *
 * Pure: no kernel calls, no floating point, no 128-bit and no signed arithmetic; `now` in nanoseconds of any clock that never
 * goes back. Each interface of the queue pair has a slot of its own, so this is one plane's state and nobody's beside it.
 *
 * Who sends finds that a plane is lost (its link is down, a switch said so, or nothing is heard by it), and notes when. From then on it
 * sends probes by it, one each period, for ever. Their answers come here, and bring along when the plane was last lost:
 *
 *   a loss that is new   the plane is down. It is held down for `hold_ns`, twice as long as the last time if it had not stood
 *                        for `stable_ns`, at most `hold_most_ns`
 *   `answers` in a row   and the hold is over: it is up, and may carry 1/16 of its line for `ramp_ns`, then 1/4 for as long, then all
 */
#ifndef WEFT_DUAL_PLANE_H
#define WEFT_DUAL_PLANE_H

#include "cc_event.h"

#define DUAL_PLANE_TIME_MOST_NS ((weft_u64)1 << 56)

struct dual_plane_params {
    weft_u64 line_rate;    /* bits/s, > 0 */
    weft_u64 min_rate;     /* bits/s, > 0, at most line_rate: what a ramp begins with at least */
    weft_u64 hold_ns;      /* the first hold-down */
    weft_u64 hold_most_ns; /* the longest, at least hold_ns */
    weft_u64 stable_ns;    /* who has stood so long is forgiven */
    weft_u64 ramp_ns;      /* each of the two steps */
    weft_u32 answers;      /* in a row, > 0 */
    weft_u32 pad_;
};

struct dual_plane {
    struct dual_plane_params params;
    weft_u64 rate;     /* bits/s: what the plane may carry */
    weft_u64 lost_at;  /* the last loss that was heard of; 0: none */
    weft_u64 up_at;    /* since when it has stood */
    weft_u64 hold;     /* ns, of the last loss */
    weft_u32 down;
    weft_u32 ramping;  /* its rate is not the line's yet */
    weft_u32 answered; /* in a row */
    weft_u32 number;   /* of the last one */
    weft_u32 losses;
    weft_u32 pad_;
};

enum { dual_plane_HEARS = 1 << CC_PROBED };
enum { dual_plane_WANTS = CC_PLANES };

static inline const char *dual_plane_invalid(const struct dual_plane_params *p)
{
    if (!p->line_rate || !p->min_rate || p->min_rate > p->line_rate)
        return "min_rate is from 1 to line_rate";
    if (p->hold_most_ns > DUAL_PLANE_TIME_MOST_NS || p->hold_ns > p->hold_most_ns)
        return "hold_ns is at most hold_most_ns, and that 2^56";
    if (p->stable_ns > DUAL_PLANE_TIME_MOST_NS || p->ramp_ns > DUAL_PLANE_TIME_MOST_NS)
        return "stable_ns and ramp_ns are at most 2^56";
    if (!p->answers)
        return "answers is at least 1";
    return 0;
}

static inline void dual_plane_init(struct dual_plane *s, const struct dual_plane_params *params, weft_u64 now)
{
    s->params = *params;
    s->rate = params->line_rate;
    s->lost_at = s->hold = 0;
    s->up_at = now;
    s->down = s->ramping = s->answered = s->number = s->losses = s->pad_ = 0;
}

static inline weft_u64 dual_plane_share(const struct dual_plane *s, weft_u32 shift)
{
    const weft_u64 rate = s->params.line_rate >> shift;

    return rate < s->params.min_rate ? s->params.min_rate : rate;
}

/* A plane that is back grows in two steps. */
static inline void dual_plane_elapse(struct dual_plane *s, weft_u64 now)
{
    const weft_u64 ramp = s->params.ramp_ns;

    if (s->down || !s->ramping || now < s->up_at + ramp)
        return;
    s->ramping = now < s->up_at + 2 * ramp;
    s->rate = s->ramping ? dual_plane_share(s, 2) : s->params.line_rate;
}

static inline void dual_plane_lose(struct dual_plane *s, weft_u64 lost_at)
{
    const weft_u64 twice = 2 * s->hold, most = s->params.hold_most_ns;
    const weft_u64 stood = lost_at > s->up_at ? lost_at - s->up_at : 0;

    if (s->losses && (s->down || stood < s->params.stable_ns))
        s->hold = twice < most ? twice : most;
    else
        s->hold = s->params.hold_ns;
    s->lost_at = lost_at;
    s->losses++;
    s->down = 1;
    s->ramping = s->answered = 0;
    s->rate = s->params.min_rate;
}

static inline void dual_plane_on_event(struct dual_plane *s, const struct cc_event *event, const struct cc_telemetry *telemetry,
                                       weft_u64 now)
{
    (void)telemetry;
    dual_plane_elapse(s, now);
    if (event->lost_at > s->lost_at)
        dual_plane_lose(s, event->lost_at);
    if (!s->down)
        return;
    s->answered = s->answered && event->number == s->number + 1 ? s->answered + 1 : 1;
    s->number = event->number;
    if (s->answered < s->params.answers || now < s->lost_at || now - s->lost_at < s->hold)
        return;
    s->down = s->answered = 0;
    s->up_at = now;
    s->ramping = s->params.ramp_ns != 0;
    s->rate = s->ramping ? dual_plane_share(s, 4) : s->params.line_rate;
}

/* The rate at `now` in bits/s; what has elapsed is applied to a copy. */
static inline weft_u64 dual_plane_rate_at(const struct dual_plane *s, weft_u64 now)
{
    struct dual_plane copy;

    if (!s->ramping)
        return s->rate;
    copy = *s;
    dual_plane_elapse(&copy, now);
    return copy.rate;
}

static inline weft_u64 dual_plane_window_at(const struct dual_plane *s, weft_u64 now)
{
    (void)s, (void)now;
    return CC_NO_LIMIT;
}

static inline weft_u32 dual_plane_path_at(const struct dual_plane *s, const struct cc_choice *choice, weft_u64 now)
{
    (void)choice, (void)now;
    return s->down ? CC_SHUT : CC_NO_PATH;
}

#endif
#ifdef CC_ALGORITHM
CC_ALGORITHM(dual_plane)
#endif
