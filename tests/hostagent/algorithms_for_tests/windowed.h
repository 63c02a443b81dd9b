/* For tests: a window that a test says, later another one by time, and more with each acknowledgement. */
#ifndef WINDOWED_H
#define WINDOWED_H

#include "cc_event.h"

struct windowed_params {
    weft_u64 line_rate, min_rate;
    weft_u64 window;             /* bytes */
    weft_u64 later_at, later;    /* from then on at least that; 0: never */
    weft_u64 each;               /* added by an acknowledgement of something new */
    weft_u64 shrinks_at, shrunk; /* with so many acknowledged bytes it becomes that; 0: never */
};

struct windowed {
    struct windowed_params params;
    weft_u64 rate;
    weft_u64 window, bytes;
};

enum { windowed_HEARS = 1 << CC_ACKED };
enum { windowed_WANTS = CC_WINDOW };

static inline const char *windowed_invalid(const struct windowed_params *p)
{
    return p->line_rate ? 0 : "line_rate is at least 1";
}

static inline void windowed_init(struct windowed *s, const struct windowed_params *params, weft_u64 now)
{
    (void)now;
    s->params = *params;
    s->rate = params->line_rate;
    s->window = params->window;
    s->bytes = 0;
}

static inline void windowed_elapse(struct windowed *s, weft_u64 now) { (void)s, (void)now; }

static inline void windowed_on_event(struct windowed *s, const struct cc_event *event,
                                     const struct cc_telemetry *telemetry, weft_u64 now)
{
    (void)telemetry, (void)now;
    s->bytes += event->bytes;
    if (event->bytes)
        s->window += s->params.each;
    if (s->params.shrinks_at && s->bytes >= s->params.shrinks_at)
        s->window = s->params.shrunk;
}

static inline weft_u64 windowed_rate_at(const struct windowed *s, weft_u64 now)
{
    (void)now;
    return s->rate;
}

static inline weft_u64 windowed_window_at(const struct windowed *s, weft_u64 now)
{
    if (s->params.later_at && now >= s->params.later_at && s->params.later > s->window)
        return s->params.later;
    return s->window;
}

static inline weft_u32 windowed_path_at(const struct windowed *s, const struct cc_choice *choice, weft_u64 now)
{
    (void)s, (void)choice, (void)now;
    return CC_NO_PATH;
}

#endif
#ifdef CC_ALGORITHM
CC_ALGORITHM(windowed)
#endif
