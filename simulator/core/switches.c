/* Owns how switches run, and what they hand to links and to the controller. */
#include "engine.h"

#include <stdlib.h>
#include <string.h>

/* --- what they send -------------------------------------------------------------------------- */

static void punt(struct sim *s, uint32_t node, const struct ws_output *output)
{
    uint32_t total = output->length + output->tail_length;
    uint8_t *bytes = malloc(total + 1);
    if (!bytes || !room((void **)&s->punts, s->punts_n, &s->punts_capacity, sizeof *s->punts)) {
        free(bytes);
        sim_short(s, "packets for the controller");
        return;
    }
    memcpy(bytes, output->data, output->length);
    ws_write_tail(bytes, output->length, output->tail_length, output->tail_seed);
    struct sim_punt *row = &s->punts[s->punts_n++];
    *row = (struct sim_punt){.node = node, .output = *output};
    row->output.data = bytes;
    row->output.length = total;
    row->output.tail_length = 0;
}

static int punt_order(const void *left, const void *right)
{
    const struct sim_punt *a = left, *b = right;
    if (a->output.at != b->output.at)
        return a->output.at < b->output.at ? -1 : 1;
    if (a->node != b->node)
        return a->node < b->node ? -1 : 1;
    return a->output.id < b->output.id ? -1 : a->output.id > b->output.id;
}

void punts_sort(struct sim *s)
{
    qsort(s->punts + s->punts_taken, s->punts_n - s->punts_taken, sizeof *s->punts, punt_order);
}

void punts_forget(struct sim *s)
{
    for (size_t i = 0; i < s->punts_n; i++)
        free((void *)(uintptr_t)s->punts[i].output.data);
    s->punts_n = s->punts_taken = 0;
}

static void send_out(struct sim *s, const struct node *node, const struct ws_output *output)
{
    const struct end *end = output->port < node->n_ends ? &node->ends[output->port] : NULL;
    if (!end || !end->out)
        return; /* a port without a link */
    if (end->tap) {
        struct ws_port_config config;
        ws_port_config_get(node->sw, output->port, &config);
        tap_frame(s, end->tap, output->at - config.tx_delay_ps, 1, output->data, output->length,
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

static void settle(struct sim *s, uint32_t number)
{
    enum { BATCH = 16 };
    const struct node *node = &s->nodes[number];
    struct ws_output outputs[BATCH];
    size_t n;
    do {
        n = ws_take_output(node->sw, outputs, BATCH, WS_NEVER);
        for (size_t i = 0; i < n; i++) {
            if (outputs[i].kind == WS_OUT_PACKET)
                send_out(s, node, &outputs[i]);
            else
                punt(s, number, &outputs[i]);
        }
    } while (n == BATCH);
}

/* When something happens there next. */
static ws_time next_of(const struct node *node)
{
    ws_time next = ws_own_next(node->sw);
    for (uint32_t i = 0; i < node->n_inlets; i++)
        if (node->firsts[i] < next)
            next = node->firsts[i];
    return next;
}

/* A switch goes on without what it has no memory for; a simulation does not. */
static void check_memory(struct sim *s, const struct node *node)
{
    if (ws_no_memory(node->sw))
        sim_short(s, "packets in switches");
}

void switch_refresh(struct sim *s, uint32_t number)
{
    settle(s, number);
    check_memory(s, &s->nodes[number]);
    s->switch_next[s->nodes[number].turn] = next_of(&s->nodes[number]);
}

/* --- arrivals in order ------------------------------------------------------------------------- */

static inline int earlier(const struct arrival *a, const struct arrival *b)
{
    return a->time < b->time || (a->time == b->time && a->inlet < b->inlet);
}

static void sink(struct arrival *heap, uint32_t n, uint32_t at, struct arrival arrival)
{
    for (;;) {
        uint32_t child = 2 * at + 1;
        if (child >= n)
            break;
        if (child + 1 < n && earlier(&heap[child + 1], &heap[child]))
            child++;
        if (!earlier(&heap[child], &arrival))
            break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = arrival;
}

/* Where its frames lie depends on what happened last: they are brought near when its turn has come. */
static void warm(const struct node *node, const struct arrival *arrivals, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        flight_prefetch(node->inlets[arrivals[i].inlet]->head);
}

/* A heap of the inlets by which something comes up to `last`; returns how many. */
static uint32_t gather(const struct node *node, struct arrival *heap, ws_time last)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < node->n_inlets; i++)
        if (node->firsts[i] <= last)
            heap[n++] = (struct arrival){node->firsts[i], i, 0};
    warm(node, heap, n);
    for (uint32_t at = n / 2; at-- > 0;)
        sink(heap, n, at, heap[at]);
    return n;
}

static void take_in(struct sim *s, const struct node *node, struct lane *lane)
{
    struct flight *flight = lane_take(s, lane);
    const uint8_t *data = flight_data(flight);
    if (node->ends[lane->to_port].tap)
        tap_frame(s, node->ends[lane->to_port].tap, flight->at, 0, data, flight->length, flight->tail,
                  flight->tail_seed);
    struct ws_packet_in packet = {
        .port = lane->to_port,
        .length = flight->length,
        .data = data,
        .tail_length = flight->tail,
        .tail_seed = flight->tail_seed,
    };
    ws_inject(node->sw, &packet, 1, flight->at);
    flight_free(s, flight);
}

void switch_run(struct sim *s, uint32_t number, ws_time last)
{
    struct node *node = &s->nodes[number];
    struct arrival *heap = s->arrivals;
    uint32_t n = gather(node, heap, last), taken = 0;
    for (;;) {
        ws_time own = ws_own_next(node->sw), arrival = n ? heap[0].time : WS_NEVER;
        ws_time now = own <= arrival ? own : arrival;
        if (now > last)
            break;
        if (now > s->latest)
            s->latest = now;
        s->totals.events++;
        if (own <= arrival) {
            ws_advance(node->sw, own);
        } else {
            uint32_t inlet = heap[0].inlet;
            take_in(s, node, node->inlets[inlet]);
            taken++;
            if (node->firsts[inlet] <= last)
                sink(heap, n, 0, (struct arrival){node->firsts[inlet], inlet, 0});
            else if (--n)
                sink(heap, n, 0, heap[n]);
        }
        settle(s, number);
    }
    check_memory(s, node);
    node->recent = taken;
    s->switch_next[node->turn] = next_of(node);
}

/* --- as a node ----------------------------------------------------------------------------------- */

static struct end *switch_end(struct sim *s, uint32_t number, uint32_t port, int make)
{
    struct node *node = &s->nodes[number];
    if (port < node->n_ends)
        return &node->ends[port];
    if (!make)
        return sim_fail(s, SIM_ENOENT, "node %u has no port %u with a link", number, port), NULL;
    if (port >= WS_PORTS_MAX)
        return sim_fail(s, SIM_EINVAL, "port %u is above 65535", port), NULL;
    struct end *bigger = realloc(node->ends, (port + 1) * sizeof *bigger);
    if (!bigger)
        return sim_fail(s, SIM_ENOMEM, "no memory for a port"), NULL;
    memset(bigger + node->n_ends, 0, (port + 1 - node->n_ends) * sizeof *bigger);
    node->ends = bigger;
    node->n_ends = port + 1;
    return &node->ends[port];
}

static int switch_fix(struct sim *s, uint32_t number)
{
    struct node *node = &s->nodes[number];
    node->turn = s->n_switches;
    s->switches[s->n_switches] = number;
    ws_time *next = &s->switch_next[s->n_switches++];
    *next = 0; /* there may be something already */
    struct lane **into = lanes_into(s, number, node->n_ends);
    node->firsts = malloc((node->n_ends + 1) * sizeof *node->firsts);
    if (!into || !node->firsts) {
        free(into);
        return 0;
    }
    for (uint32_t p = 0; p < node->n_ends; p++) {
        struct lane *lane = into[p];
        if (!lane)
            continue;
        node->firsts[node->n_inlets] = WS_NEVER;
        lane->first = &node->firsts[node->n_inlets];
        lane->to_next = next;
        into[node->n_inlets++] = lane;
    }
    node->inlets = into;
    if (node->n_inlets > s->most_inlets)
        s->most_inlets = node->n_inlets;
    return 1;
}

static ws_time switch_delay(const struct sim *s, uint32_t number, uint32_t port)
{
    struct ws_port_config config;
    if (ws_port_config_get(s->nodes[number].sw, port, &config))
        return 0;
    return config.tx_delay_ps + least_slot(config.rate_bps);
}

static void switch_link(struct sim *s, uint32_t number, uint32_t port, int up)
{
    ws_switch *sw = s->nodes[number].sw;
    enum ws_port_state state;
    uint32_t pause_mask;
    ws_port_state_get(sw, port, &state, &pause_mask);
    if (state != WS_PORT_BLOCKED)
        ws_set_port(sw, port, up ? WS_PORT_UP : WS_PORT_DOWN, pause_mask, s->now);
    switch_refresh(s, number);
}

static void switch_free(struct node *node)
{
    free(node->ends);
    free(node->inlets);
    free(node->firsts);
}

const struct element_ops switch_element = {
    .end = switch_end,
    .fix = switch_fix,
    .delay = switch_delay,
    .link = switch_link,
    .free_node = switch_free,
    .near = switch_near,
    .run = switch_run,
};
