/* Owns what is on the way: frames on links. */
#include "engine.h"

#include <stdlib.h>
#include <string.h>

#include "switch.h"

struct flight *flight_new(struct sim *s, uint32_t length)
{
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
    if (length > INLINE_BYTES && !(long_data = malloc(length)))
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
    if (flight_is_long(flight))
        free(flight->long_data);
    flight->next = s->free_flights;
    s->free_flights = flight;
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

static void end_up(struct sim *s, uint32_t number, uint32_t port, int up)
{
    struct node *node = &s->nodes[number];
    if (node->sw) {
        enum ws_port_state state;
        uint32_t pause_mask;
        ws_port_state_get(node->sw, port, &state, &pause_mask);
        if (state != WS_PORT_BLOCKED)
            ws_set_port(node->sw, port, up ? WS_PORT_UP : WS_PORT_DOWN, pause_mask, s->now);
        switch_refresh(s, number);
    } else {
        endpoint_link(&node->nics[port]);
        nic_wake(s, number, port);
    }
}

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
        end_up(s, link->node[end], link->port[end], up);
}
