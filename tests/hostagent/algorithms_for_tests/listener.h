/* For tests: limits nothing, and remembers what it was told. */
#ifndef LISTENER_H
#define LISTENER_H

#include "cc_event.h"

struct listener_params {
    weft_u64 line_rate, min_rate;
};

struct listener {
    struct listener_params params;
    weft_u64 rate;
    weft_u64 events, bytes;             /* acknowledgements, and what they were the first to acknowledge */
    weft_u64 timed, rtt_ns, rtt_sum_ns; /* of which with a round-trip time; the last event's, all of them */
    weft_u64 probed, probe_trip, probe_number, probe_lost_at; /* answers to probes; what the last one said */
    weft_u64 told, cut;                 /* with telemetry; of which not all of it */
    weft_u64 last_bytes, last_hops, last_format;
    weft_u64 words[CC_TELEMETRY_MOST / 8]; /* of the last telemetry, first byte in the most significant place */
};

enum { listener_HEARS = 1 << CC_ACKED | 1 << CC_PROBED };
enum { listener_WANTS = CC_RTT | CC_TELEMETRY };

static inline const char *listener_invalid(const struct listener_params *p)
{
    return p->line_rate ? 0 : "line_rate is at least 1";
}

static inline void listener_init(struct listener *s, const struct listener_params *params, weft_u64 now)
{
    (void)now;
    s->params = *params;
    s->rate = params->line_rate;
}

static inline void listener_elapse(struct listener *s, weft_u64 now) { (void)s, (void)now; }

static inline void listener_on_event(struct listener *s, const struct cc_event *event,
                                     const struct cc_telemetry *telemetry, weft_u64 now)
{
    (void)now;
    if (event->kind == CC_PROBED) {
        s->probed++;
        s->probe_trip = event->rtt_ns;
        s->probe_number = event->number;
        s->probe_lost_at = event->lost_at;
        return;
    }
    s->events++;
    s->bytes += event->bytes;
    s->timed += event->rtt_ns != 0;
    s->rtt_ns = event->rtt_ns;
    s->rtt_sum_ns += event->rtt_ns;
    if (!telemetry)
        return;
    s->told++;
    s->cut += telemetry->cut;
    s->last_bytes = telemetry->bytes;
    s->last_hops = telemetry->hops;
    s->last_format = telemetry->format;
    for (weft_u32 i = 0; i < CC_TELEMETRY_MOST / 8; i++) {
        weft_u64 word = 0;

        for (weft_u32 j = 0; j < 8; j++)
            word = word << 8 | telemetry->data[8 * i + j];
        s->words[i] = word;
    }
}

static inline weft_u64 listener_rate_at(const struct listener *s, weft_u64 now)
{
    (void)now;
    return s->rate;
}

static inline weft_u64 listener_window_at(const struct listener *s, weft_u64 now)
{
    (void)s, (void)now;
    return CC_NO_LIMIT;
}

static inline weft_u32 listener_path_at(const struct listener *s, const struct cc_choice *choice, weft_u64 now)
{
    (void)s, (void)choice, (void)now;
    return CC_NO_PATH;
}

#endif
#ifdef CC_ALGORITHM
CC_ALGORITHM(listener)
#endif
