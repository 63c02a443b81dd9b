/* For tests: it wants round-trip times, and does nothing with them. */
#ifndef TIMED_H
#define TIMED_H

#include "cc_event.h"

struct timed_params {
    weft_u64 line_rate, min_rate;
};

struct timed {
    struct timed_params params;
    weft_u64 rate;
};

enum { timed_HEARS = 1 << CC_ACKED };
enum { timed_WANTS = CC_RTT };

static inline const char *timed_invalid(const struct timed_params *p)
{
    return p->line_rate ? 0 : "line_rate is at least 1";
}

static inline void timed_init(struct timed *s, const struct timed_params *params, weft_u64 now)
{
    (void)now;
    s->params = *params;
    s->rate = params->line_rate;
}

static inline void timed_elapse(struct timed *s, weft_u64 now) { (void)s, (void)now; }

static inline void timed_on_event(struct timed *s, const struct cc_event *event,
                                  const struct cc_telemetry *telemetry, weft_u64 now)
{
    (void)s, (void)event, (void)telemetry, (void)now;
}

static inline weft_u64 timed_rate_at(const struct timed *s, weft_u64 now)
{
    (void)now;
    return s->rate;
}

static inline weft_u64 timed_window_at(const struct timed *s, weft_u64 now)
{
    (void)s, (void)now;
    return CC_NO_LIMIT;
}

static inline weft_u32 timed_path_at(const struct timed *s, const struct cc_choice *choice, weft_u64 now)
{
    (void)s, (void)choice, (void)now;
    return CC_NO_PATH;
}

#endif
#ifdef CC_ALGORITHM
CC_ALGORITHM(timed)
#endif
