/* For tests: deals packets out to the first and the last interface by a wheel of 16, and counts what was acknowledged by path. */
#ifndef WHEEL_H
#define WHEEL_H
#include "cc_event.h"
struct wheel_params { weft_u64 line_rate, min_rate; weft_u64 of_16; };
struct wheel { struct wheel_params params; weft_u64 rate; weft_u64 acked[8]; };
enum { wheel_HEARS = 1 << CC_ACKED };
enum { wheel_WANTS = CC_PATH };
static inline const char *wheel_invalid(const struct wheel_params *p) { (void)p; return 0; }
static inline void wheel_init(struct wheel *s, const struct wheel_params *params, weft_u64 now)
{
    (void)now;
    s->params = *params;
    s->rate = params->line_rate;
}
static inline void wheel_elapse(struct wheel *s, weft_u64 now) { (void)s; (void)now; }
static inline void wheel_on_event(struct wheel *s, const struct cc_event *event,
                                  const struct cc_telemetry *telemetry, weft_u64 now)
{
    (void)telemetry; (void)now;
    s->acked[event->path & 7]++;
}
static inline weft_u64 wheel_rate_at(const struct wheel *s, weft_u64 now)
{
    (void)now;
    return s->rate;
}
static inline weft_u64 wheel_window_at(const struct wheel *s, weft_u64 now)
{
    (void)s; (void)now;
    return CC_NO_LIMIT;
}
static inline weft_u32 wheel_path_at(const struct wheel *s, const struct cc_choice *choice,
                                     weft_u64 now)
{
    weft_u32 interface = choice->packet % 16 < s->params.of_16 ? 0 : choice->interfaces - 1;
    (void)now;
    return (weft_u32)(choice->packet % choice->ports * choice->interfaces) + interface;
}
#endif
#ifdef CC_ALGORITHM
CC_ALGORITHM(wheel)
#endif
