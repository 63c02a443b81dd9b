#include "daemon_events.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { RING = 4 << 20 }; /* 4 MB: some 400 jumbo frames or 30 000 small ones */

struct record {
    uint32_t kind, port, length, size; /* size: of the record in the ring */
    uint32_t program, pad;
    ws_time at;
    uint64_t id;
};

int wd_events_init(struct wd_events *events)
{
    *events = (struct wd_events){.bytes = malloc(RING)};
    if (!events->bytes)
        return -ENOMEM;
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_mutex_init(&events->mutex, NULL);
    pthread_cond_init(&events->arrived, &attributes);
    pthread_condattr_destroy(&attributes);
    return 0;
}

void wd_events_free(struct wd_events *events)
{
    if (!events->bytes)
        return;
    pthread_mutex_destroy(&events->mutex);
    pthread_cond_destroy(&events->arrived);
    free(events->bytes);
    events->bytes = NULL;
}

static void copy_in(struct wd_events *events, size_t at, const void *data, size_t n)
{
    at %= RING;
    size_t first = n < RING - at ? n : RING - at;
    if (!n)
        return;
    memcpy(events->bytes + at, data, first);
    memcpy(events->bytes, (const uint8_t *)data + first, n - first);
}

static void copy_out(const struct wd_events *events, size_t at, void *data, size_t n)
{
    at %= RING;
    size_t first = n < RING - at ? n : RING - at;
    memcpy(data, events->bytes + at, first);
    memcpy((uint8_t *)data + first, events->bytes, n - first);
}

void wd_events_put(struct wd_events *events, const struct ws_output *output)
{
    struct record record = {
        .kind = output->kind,
        .port = output->port,
        .length = output->length,
        .size = (uint32_t)((sizeof record + output->length + 7) & ~(size_t)7),
        .at = output->at,
        .id = output->id,
        .program = output->program,
    };
    pthread_mutex_lock(&events->mutex);
    if (record.size > RING - events->used) {
        events->dropped++;
    } else {
        size_t at = events->head + events->used;
        copy_in(events, at, &record, sizeof record);
        copy_in(events, at + sizeof record, output->data, output->length);
        events->used += record.size;
        pthread_cond_signal(&events->arrived);
    }
    pthread_mutex_unlock(&events->mutex);
}

static struct timespec deadline_after(int ms)
{
    struct timespec deadline;
    clock_gettime(CLOCK_MONOTONIC, &deadline);
    deadline.tv_sec += ms / 1000;
    deadline.tv_nsec += ms % 1000 * 1000000L;
    if (deadline.tv_nsec >= 1000000000) {
        deadline.tv_sec++;
        deadline.tv_nsec -= 1000000000;
    }
    return deadline;
}

size_t wd_events_wait(struct wd_events *events, struct ws_output *out, size_t max, uint8_t *buffer,
                      size_t buffer_size, int timeout_ms)
{
    struct timespec deadline = deadline_after(timeout_ms > 0 ? timeout_ms : 0);
    size_t n = 0, filled = 0;
    pthread_mutex_lock(&events->mutex);
    while (!events->used && !events->closed && !events->nudged)
        if (pthread_cond_timedwait(&events->arrived, &events->mutex, &deadline) == ETIMEDOUT)
            break;
    events->nudged = 0;
    while (n < max && events->used) {
        struct record record;
        copy_out(events, events->head, &record, sizeof record);
        if (record.length > buffer_size - filled)
            break;
        copy_out(events, events->head + sizeof record, buffer + filled, record.length);
        out[n++] = (struct ws_output){
            .kind = record.kind,
            .port = record.port,
            .length = record.length,
            .data = buffer + filled,
            .at = record.at,
            .id = record.id,
            .program = record.program,
        };
        filled += record.length;
        events->head = (events->head + record.size) % RING;
        events->used -= record.size;
    }
    pthread_mutex_unlock(&events->mutex);
    return n;
}

void wd_events_nudge(struct wd_events *events)
{
    pthread_mutex_lock(&events->mutex);
    events->nudged = 1;
    pthread_cond_signal(&events->arrived);
    pthread_mutex_unlock(&events->mutex);
}

void wd_events_close(struct wd_events *events)
{
    pthread_mutex_lock(&events->mutex);
    events->closed = 1;
    pthread_cond_broadcast(&events->arrived);
    pthread_mutex_unlock(&events->mutex);
}
