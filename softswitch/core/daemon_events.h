/* Events for the controller: owns a bounded ring of CPU packets and digests between the loop and a reader. */
#ifndef WEFT_DAEMON_EVENTS_H
#define WEFT_DAEMON_EVENTS_H

#include <pthread.h>

#include "weft_switch.h"

struct wd_events {
    pthread_mutex_t mutex;
    pthread_cond_t arrived;
    uint8_t *bytes;
    size_t head, used; /* records from `head` on, each padded to 8 bytes */
    uint64_t dropped;
    int closed;
    int nudged; /* the present or next waiter returns at once */
};

int wd_events_init(struct wd_events *events);
void wd_events_free(struct wd_events *events);
/* Copies `output`; when the ring is full it is dropped and counted. */
void wd_events_put(struct wd_events *events, const struct ws_output *output);
/* As wd_wait_events. */
size_t wd_events_wait(struct wd_events *events, struct ws_output *out, size_t max, uint8_t *buffer,
                      size_t buffer_size, int timeout_ms);
/* Lets the reader look around although nothing came. */
void wd_events_nudge(struct wd_events *events);
/* Wakes the readers; from now on waiting returns at once. */
void wd_events_close(struct wd_events *events);

#endif
