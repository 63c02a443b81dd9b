#include "events.h"

#include <stdlib.h>

static int before(const struct ws_event *a, const struct ws_event *b)
{
    if (a->time != b->time)
        return a->time < b->time;
    if (a->order != b->order)
        return a->order < b->order;
    return a->sequence < b->sequence;
}

int ws_events_push(struct ws_events *events, ws_time time, enum ws_event_class event_class, uint32_t port,
                   void *object)
{
    if (events->n == events->capacity) {
        size_t capacity = events->capacity ? events->capacity * 2 : 64;
        struct ws_event *heap = realloc(events->heap, capacity * sizeof *heap);
        if (!heap)
            return 0;
        events->heap = heap;
        events->capacity = capacity;
    }
    struct ws_event event = {time, (uint64_t)event_class << 32 | port, events->sequence++, object};
    size_t i = events->n++;
    while (i > 0) {
        size_t parent = (i - 1) / 2;
        if (!before(&event, &events->heap[parent]))
            break;
        events->heap[i] = events->heap[parent];
        i = parent;
    }
    events->heap[i] = event;
    events->next = events->heap[0].time;
    return 1;
}

struct ws_event ws_events_pop(struct ws_events *events)
{
    struct ws_event top = events->heap[0];
    struct ws_event last = events->heap[--events->n];
    size_t i = 0;
    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= events->n)
            break;
        if (child + 1 < events->n && before(&events->heap[child + 1], &events->heap[child]))
            child++;
        if (!before(&events->heap[child], &last))
            break;
        events->heap[i] = events->heap[child];
        i = child;
    }
    if (events->n)
        events->heap[i] = last;
    events->next = events->n ? events->heap[0].time : WS_NEVER;
    return top;
}

void ws_events_init(struct ws_events *events) { *events = (struct ws_events){.next = WS_NEVER}; }

void ws_events_free(struct ws_events *events)
{
    free(events->heap);
    ws_events_init(events);
}
