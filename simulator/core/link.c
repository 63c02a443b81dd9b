/* Owns what is on the way: frames on links. */
#include "engine.h"

#include <stdlib.h>
#include <string.h>

/* Of three lines. Apart from the others: what has no telemetry stays as near as it was. */
static __attribute__((noinline)) struct flight *wide_new(struct sim *s, uint32_t length)
{
    struct flight *flight = s->free_wide;
    if (!flight) {
        uint8_t *slab = ws_memory_get(WIDE_SLAB_BYTES);
        if (!slab)
            return sim_short(s, "frames on links"), NULL;
        *(void **)slab = s->wide_slabs;
        s->wide_slabs = slab;
        for (int i = WIDE_SLAB - 1; i > 0; i--) {
            flight = (struct flight *)(slab + i * WIDE_FLIGHT);
            flight->next = s->free_wide;
            s->free_wide = flight;
        }
    }
    s->free_wide = flight->next;
    flight->next = NULL;
    flight->length = length;
    return flight;
}

struct flight *flight_new(struct sim *s, uint32_t length)
{
    if (length > INLINE_BYTES && length <= WIDE_BYTES)
        return wide_new(s, length);
    struct flight *flight = s->free_flights;
    if (!flight) {
        struct flight *slab = ws_memory_get(FLIGHT_SLAB_BYTES);
        if (!slab)
            return sim_short(s, "frames on links"), NULL;
        *(void **)slab = s->flight_slabs;
        s->flight_slabs = slab;
        flight = slab + 1; /* the first one's place points to the slab before */
        for (int i = FLIGHT_SLAB - 1; i-- > 0;) {
            flight[i].next = s->free_flights;
            s->free_flights = &flight[i];
        }
    }
    uint8_t *long_data = NULL;
    if (length > WIDE_BYTES && !(long_data = malloc(length)))
        return sim_short(s, "frames on links"), NULL;
    s->free_flights = flight->next;
    flight->next = NULL;
    flight->length = length;
    if (long_data)
        flight->long_data = long_data;
    return flight;
}

void flight_free(struct sim *s, struct flight *flight)
{
    struct flight **list = &s->free_flights;
    if (__builtin_expect(flight->length > INLINE_BYTES, 0)) {
        if (flight_is_long(flight))
            free(flight->long_data);
        else
            list = &s->free_wide;
    }
    flight->next = *list;
    *list = flight;
}

/* The first frame is another one. */
static inline void head_changed(struct lane *lane, ws_time at)
{
    *lane->first = at;
    if (at < *lane->to_next)
        *lane->to_next = at;
}

void lane_put(struct sim *s, struct lane *lane, struct flight *flight)
{
    if (!lane->up) {
        s->totals.lost_link++;
        flight_free(s, flight);
        return;
    }
    lane->packets++;
    lane->bytes += ws_wire_bytes(flight->length + flight->tail);
    if (__builtin_expect(s->paths != NULL, 0))
        paths_sent(s, lane, flight);
    s->totals.in_flight++;
    flight->next = NULL;
    flight->next_at = WS_NEVER;
    if (!lane->head) {
        lane->head = lane->tail = flight;
        lane->last_at = flight->at;
        head_changed(lane, flight->at);
    } else if (flight->at >= lane->last_at) {
        lane->tail->next = flight;
        lane->tail->next_at = flight->at;
        lane->tail = flight;
        lane->last_at = flight->at;
    } else { /* something held others back: behind what comes no later */
        struct flight *before = NULL, *after = lane->head;
        while (after->at <= flight->at) {
            before = after;
            after = after->next;
        }
        flight->next = after;
        flight->next_at = after->at;
        if (before) {
            before->next = flight;
            before->next_at = flight->at;
        } else {
            lane->head = flight;
            head_changed(lane, flight->at);
        }
    }
}

struct flight *lane_take(struct sim *s, struct lane *lane)
{
    struct flight *flight = lane->head;
    lane->head = flight->next;
    s->totals.in_flight--;
    if (lane->head)
        flight_prefetch(lane->head);
    head_changed(lane, flight->next_at);
    return flight;
}

void lane_cut(struct sim *s, struct lane *lane)
{
    while (lane->head) {
        flight_free(s, lane_take(s, lane));
        s->totals.lost_link++;
    }
}

/* --- links going up and down --------------------------------------------------------------------- */

void link_update(struct sim *s, struct link *link)
{
    int up = link->wanted && s->nodes[link->node[0]].alive && s->nodes[link->node[1]].alive;
    if (up == link->up)
        return;
    link->up = (uint8_t)up;
    for (int d = 0; d < 2; d++) {
        link->lanes[d].up = (uint8_t)up;
        if (!up)
            lane_cut(s, &link->lanes[d]);
    }
    for (int end = 0; end < 2; end++)
        s->nodes[link->node[end]].ops->link(s, link->node[end], link->port[end], up);
}
