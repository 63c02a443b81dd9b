/* Events: owns the heap of what happens later.
 *
 * Order is (time, class, port, sequence): equal times run in the same order on every run. Departures come
 * before arrivals of the same instant, so that a slot freed at t is free for what arrives at t.
 */
#ifndef WEFT_EVENTS_H
#define WEFT_EVENTS_H

#include <stddef.h>

#include "weft_switch.h"

enum ws_event_class {
    WS_EVENT_PORT = 0,    /* object: struct ws_port that may send again */
    WS_EVENT_REQUEUE = 1, /* object: packet, egress clone of an egress clone, to be queued */
    WS_EVENT_REENTER = 2, /* object: packet, resubmitted or recirculated */
    WS_EVENT_PAUSE = 4,   /* object: struct ws_port whose pauses change (buffer.h) */
    WS_EVENT_ARRIVE = 3,  /* object: packet, at the end of its rx delay */
};

struct ws_event {
    ws_time time;
    uint64_t order; /* class << 32 | port */
    uint64_t sequence;
    void *object;
};

struct ws_events {
    ws_time next; /* the first one's; WS_NEVER: there is none */
    struct ws_event *heap;
    size_t n, capacity;
    uint64_t sequence;
};

/* None yet. */
void ws_events_init(struct ws_events *events);
/* 0 when memory is out. */
int ws_events_push(struct ws_events *events, ws_time time, enum ws_event_class event_class, uint32_t port,
                   void *object);
struct ws_event ws_events_pop(struct ws_events *events);
void ws_events_free(struct ws_events *events);

static inline ws_time ws_events_next(const struct ws_events *events) { return events->next; }

#endif
