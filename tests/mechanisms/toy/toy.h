/* Toy: a sender that goes at one rate, whatever it hears. */
#ifndef WEFT_TOY_H
#define WEFT_TOY_H

#include "cc_event.h"

struct toy_params {
    weft_u64 line_rate, min_rate; /* bits/s */
    weft_u64 fixed_rate;          /* bits/s, from min_rate to line_rate */
};

struct toy {
    struct toy_params params;
    weft_u64 rate; /* bits/s */
};

enum { toy_HEARS = 1 << CC_CNP };
enum { toy_WANTS = 0 };

static inline const char *toy_invalid(const struct toy_params *p)
{
    return p->fixed_rate && p->fixed_rate <= p->line_rate ? 0 : "fixed_rate is from 1 to line_rate";
}

static inline void toy_init(struct toy *s, const struct toy_params *params, weft_u64 now)
{
    (void)now;
    s->params = *params;
    s->rate = params->fixed_rate;
}

static inline void toy_elapse(struct toy *s, weft_u64 now)
{
    (void)s;
    (void)now;
}

static inline void toy_on_event(struct toy *s, const struct cc_event *event, const struct cc_telemetry *telemetry,
                                weft_u64 now)
{
    (void)s, (void)event, (void)telemetry, (void)now;
}

static inline weft_u64 toy_rate_at(const struct toy *s, weft_u64 now)
{
    (void)now;
    return s->rate;
}

static inline weft_u64 toy_window_at(const struct toy *s, weft_u64 now)
{
    (void)s, (void)now;
    return CC_NO_LIMIT;
}

static inline weft_u32 toy_path_at(const struct toy *s, const struct cc_choice *choice, weft_u64 now)
{
    (void)s, (void)choice, (void)now;
    return CC_NO_PATH;
}

#endif
#ifdef CC_ALGORITHM
CC_ALGORITHM(toy)
#endif
