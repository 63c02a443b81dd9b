/* The event loop. */
#include "engine.h"

#include <stdlib.h>

#include "switch.h"

static void arrive(struct sim *s, struct lane *lane)
{
    struct flight *flight = lane_take(s, lane);
    struct node *node = &s->nodes[lane->to_node];
    if (!node->sw) {
        nic_receive(s, lane->to_node, lane->to_port, flight);
        return;
    }
    if (node->ends[lane->to_port].tap)
        tap_frame(s, node->ends[lane->to_port].tap, s->now, 0, flight_data(flight), flight->length, flight->tail,
                  flight->tail_seed);
    struct ws_packet_in packet = {
        .port = lane->to_port,
        .length = flight->length,
        .data = flight_data(flight),
        .tail_length = flight->tail,
        .tail_seed = flight->tail_seed,
    };
    ws_inject(node->sw, &packet, 1, s->now);
    flight_free(s, flight);
    switch_settle(s, lane->to_node);
}

static void handle_source(struct sim *s, uint32_t number)
{
    const struct source *source = &s->sources[number];
    switch ((enum source_kind)source->kind) {
    case SOURCE_SWITCH:
        ws_advance(s->nodes[source->node].sw, s->now);
        switch_settle(s, source->node);
        break;
    case SOURCE_ARRIVAL:
        arrive(s, source->object);
        break;
    case SOURCE_NIC:
        nic_send(s, source->node, source->port);
        break;
    }
}

static void handle_timer(struct sim *s)
{
    struct timer timer = order_pop_timer(s);
    switch ((enum timer_kind)timer.kind) {
    case TIMER_STREAM:
        stream_due(s, timer.object);
        break;
    case TIMER_MESSAGE:
        message_due(s, timer.object);
        break;
    case TIMER_FLOW:
        flow_due(s, s->flows[timer.object]);
        break;
    case TIMER_SCRIPT:
        script_due(s, timer.object);
        break;
    case TIMER_NIC:
        nic_wake(s, (uint32_t)timer.object, timer.part);
        break;
    }
}

static int all_sent(const struct sim *s)
{
    if (s->totals.messages_done < s->totals.messages || s->streams_open || s->script_open)
        return 0;
    if (!s->n_streams && !s->n_script)
        return 1;
    return !s->works && !s->raws && !s->totals.in_flight && !s->switch_events_pending;
}

enum sim_stop sim_run(sim *s, ws_time until, uint64_t budget, int to_the_end)
{
    if (order_fix(s))
        return SIM_IDLE;
    if (s->punts_taken == s->punts_n) {
        for (size_t i = 0; i < s->punts_n; i++)
            free(s->punt_bytes[i]);
        s->punts_n = s->punts_taken = 0;
    }
    for (uint64_t events = 0;; events++) {
        if (s->punts_n > s->punts_taken)
            return SIM_PUNT;
        if (to_the_end && all_sent(s))
            return SIM_DONE;
        ws_time source = s->heap_n ? s->heap[0].time : WS_NEVER;
        ws_time timer = s->timers_n ? s->timers[0].time : WS_NEVER;
        ws_time next = timer <= source ? timer : source;
        if (s->next_sample < next && s->next_sample <= until && next != WS_NEVER) {
            s->now = s->next_sample;
            sample_now(s);
            s->next_sample += s->sample_interval;
            continue;
        }
        if (next > until || next == WS_NEVER) {
            if (next != WS_NEVER || until == WS_NEVER) {
                if (until != WS_NEVER && until > s->now)
                    s->now = until;
                return next == WS_NEVER ? SIM_IDLE : SIM_UNTIL;
            }
            if (until > s->now)
                s->now = until;
            return SIM_IDLE;
        }
        if (events == budget)
            return SIM_BUDGET;
        if (next > s->now)
            s->now = next;
        s->totals.events++;
        if (timer <= source)
            handle_timer(s);
        else
            handle_source(s, s->heap[0].source);
    }
}

ws_time sim_now(const sim *s) { return s->now; }

size_t sim_take_punts(sim *s, struct sim_punt *punts, size_t max)
{
    size_t n = 0;
    while (n < max && s->punts_taken < s->punts_n)
        punts[n++] = s->punts[s->punts_taken++];
    return n;
}

void sim_totals_get(const sim *s, struct sim_totals *totals)
{
    *totals = s->totals;
    totals->hops = 0;
    for (uint32_t i = 0; i < s->n_nodes; i++)
        if (s->nodes[i].sw)
            totals->hops += s->nodes[i].sw->stats.egress;
}
