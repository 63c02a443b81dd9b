/* Owns what is on the way: frames on links, and what switches hand to them. */
#include "engine.h"

#include <stdlib.h>
#include <string.h>

#include "switch.h"

enum { SLAB = 1024 };

struct flight *flight_new(struct sim *s, uint32_t length)
{
    struct flight *flight = s->free_flights;
    if (!flight) {
        struct flight *slab = malloc(16 + SLAB * sizeof *slab);
        if (!slab)
            return NULL;
        *(void **)slab = s->flight_slabs;
        s->flight_slabs = slab;
        flight = (struct flight *)((uint8_t *)slab + 16);
        for (int i = 0; i < SLAB; i++) {
            flight[i].next = s->free_flights;
            s->free_flights = &flight[i];
        }
        flight = s->free_flights;
    }
    uint8_t *long_data = NULL;
    if (length > INLINE_BYTES && !(long_data = malloc(length)))
        return NULL;
    s->free_flights = flight->next;
    flight->next = NULL;
    flight->length = length;
    flight->long_data = long_data;
    return flight;
}

void flight_free(struct sim *s, struct flight *flight)
{
    if (flight->long_data)
        free(flight->long_data);
    flight->next = s->free_flights;
    s->free_flights = flight;
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
    if (!lane->head) {
        lane->head = lane->tail = flight;
        order_set(s, lane->source, flight->at);
    } else if (flight->at >= lane->tail->at) {
        lane->tail->next = flight;
        lane->tail = flight;
    } else { /* something held others back: behind what comes no later */
        struct flight **at = &lane->head;
        while ((*at)->at <= flight->at)
            at = &(*at)->next;
        flight->next = *at;
        *at = flight;
        if (lane->head == flight)
            order_set(s, lane->source, flight->at);
    }
}

struct flight *lane_take(struct sim *s, struct lane *lane)
{
    struct flight *flight = lane->head;
    lane->head = flight->next;
    s->totals.in_flight--;
    order_set(s, lane->source, lane->head ? lane->head->at : WS_NEVER);
    return flight;
}

void lane_cut(struct sim *s, struct lane *lane)
{
    while (lane->head) {
        flight_free(s, lane_take(s, lane));
        s->totals.lost_link++;
    }
}

/* --- switches ---------------------------------------------------------------------------------- */

static void punt(struct sim *s, uint32_t node, const struct ws_output *output)
{
    size_t capacity = s->punts_capacity;
    if (!room((void **)&s->punts, s->punts_n, &s->punts_capacity, sizeof *s->punts) ||
        !room((void **)&s->punt_bytes, s->punts_n, &capacity, sizeof *s->punt_bytes))
        return;
    uint32_t total = output->length + output->tail_length;
    uint8_t *bytes = malloc(total + 1);
    if (!bytes)
        return;
    memcpy(bytes, output->data, output->length);
    ws_payload(output->tail_seed, 0, bytes + output->length, output->tail_length);
    s->punt_bytes[s->punts_n] = bytes;
    struct sim_punt *row = &s->punts[s->punts_n++];
    *row = (struct sim_punt){.node = node, .output = *output};
    row->output.data = bytes;
    row->output.length = total;
    row->output.tail_length = 0;
}

static void send_out(struct sim *s, struct node *node, const struct ws_output *output)
{
    struct end *end = output->port < node->n_ends ? &node->ends[output->port] : NULL;
    if (!end || !end->out)
        return; /* a port without a link */
    if (end->tap) {
        const struct ws_port *port = node->sw->ports.table[output->port];
        tap_frame(s, end->tap, output->at - port->config.tx_delay_ps, 1, output->data, output->length,
                  output->tail_length, output->tail_seed);
    }
    struct flight *flight = flight_new(s, output->length);
    if (!flight)
        return;
    flight->at = output->at;
    flight->tail = output->tail_length;
    flight->tail_seed = output->tail_seed;
    memcpy(flight_data(flight), output->data, output->length);
    lane_put(s, end->out, flight);
}

void switch_settle(struct sim *s, uint32_t number)
{
    struct node *node = &s->nodes[number];
    struct ws_output outputs[16];
    size_t n;
    do {
        n = ws_take_output(node->sw, outputs, 16, WS_NEVER);
        for (size_t i = 0; i < n; i++) {
            if (outputs[i].kind == WS_OUT_PACKET)
                send_out(s, node, &outputs[i]);
            else
                punt(s, number, &outputs[i]);
        }
    } while (n == 16);
    order_set(s, node->source, ws_events_next(&node->sw->events));
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
        switch_settle(s, number);
    } else {
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
