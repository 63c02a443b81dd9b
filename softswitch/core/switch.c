#include "switch.h"

#include <stdlib.h>
#include <string.h>

#include "buffer.h"
#include "memory.h"
#include "pipeline.h"
#include "trace.h"

/* --- life ------------------------------------------------------------------------------------ */

void ws_config_default(struct ws_config *config)
{
    *config = (struct ws_config){
        .drop_port = 511,
        .priorities = 1,
        .tick_ps = 1000000,
        .queue_packets = 64,
        .recirculate_ps = 1000000,
        .recirculate_packets = 1024,
        .seed = 1,
    };
}

ws_switch *ws_create(const struct ws_config *config)
{
    if (config->priorities < 1 || config->priorities > WS_PRIORITIES_MAX || config->tick_ps <= 0 ||
        config->recirculate_ps <= 0)
        return NULL;
    ws_switch *sw = ws_memory_get(sizeof *sw);
    if (!sw)
        return NULL;
    ws_events_init(&sw->events);
    sw->config = *config;
    sw->random = config->seed;
    return sw;
}

void ws_seed(ws_switch *sw, uint64_t seed)
{
    sw->config.seed = seed;
    sw->random = seed;
}

static void unload(ws_switch *sw)
{
    ws_trace_unloaded(sw);
    ws_ports_forget_packets(sw);
    ws_buffer_forget_packets(sw);
    ws_events_free(&sw->events);
    ws_outputs_free(&sw->outputs);
    sw->waiting = 0;
    ws_replication_free(&sw->replication);
    ws_program_free(sw->program);
    sw->program = NULL;
    while (sw->retired) {
        struct ws_program *next = sw->retired->next;
        ws_program_free(sw->retired);
        sw->retired = next;
    }
}

void ws_destroy(ws_switch *sw)
{
    if (!sw)
        return;
    unload(sw);
    ws_trace_free(sw);
    ws_buffer_free(sw);
    ws_ports_free(&sw->ports);
    ws_memory_put(sw, sizeof *sw);
}

int ws_load(ws_switch *sw, const char *so_path)
{
    int status;
    struct ws_program *program = ws_program_load(sw, so_path, &status);
    if (!program)
        return status;
    unload(sw);
    sw->program = program;
    program->number = ++sw->programs;
    sw->error[0] = '\0';
    return WS_OK;
}

const struct wp_pipeline *ws_pipeline(const ws_switch *sw) { return sw->program ? sw->program->pipeline : NULL; }

uint32_t ws_program_number(const ws_switch *sw) { return sw->program ? sw->program->number : 0; }

const char *ws_last_error(const ws_switch *sw) { return sw->error; }

void ws_stats_get(const ws_switch *sw, struct ws_stats *stats) { *stats = sw->stats; }

void ws_set_log(ws_switch *sw, void (*log)(void *opaque, int level, const char *line), void *opaque)
{
    sw->log = log;
    sw->log_opaque = opaque;
}

/* --- time and packets ------------------------------------------------------------------------ */

/* The packet as one of the program that runs now; NULL when that takes memory that is not there. */
static struct ws_packet *current(ws_switch *sw, struct ws_packet *packet)
{
    return packet->pool->program == sw->program ? packet : ws_program_adopt_packet(sw, packet);
}

static void receive(ws_switch *sw, struct ws_packet *packet, struct ws_port *port)
{
    if (sw->trace)
        ws_trace_arrived(sw, packet, port->number);
    if (port->state == WS_PORT_DOWN) {
        port->stats.drop_down++;
        ws_trace_end(sw, packet, WS_TRACE_DROP_PORT_DOWN, port->number);
        ws_packet_free(packet);
        return;
    }
    if (sw->buffer) {
        if (ws_pfc_receive(sw, port, packet->frame, packet->ctx.data_len)) {
            ws_trace_end(sw, packet, WS_TRACE_PAUSE, port->number);
            ws_packet_free(packet);
            return;
        }
        packet->class_in = ws_buffer_class(sw->buffer, packet->frame, packet->ctx.data_len);
    }
    port->stats.rx_packets++;
    port->stats.rx_bytes += packet->ctx.data_len + packet->tail;
    ws_pipeline_receive(sw, packet, port->number);
    ws_ingress(sw, packet);
}

static void run_event(ws_switch *sw, const struct ws_event *event)
{
    struct ws_port *port;
    struct ws_packet *packet = event->object;
    switch ((enum ws_event_class)(event->order >> 32)) {
    case WS_EVENT_PORT:
        port = event->object;
        if (port->wake_at == event->time)
            port->wake_at = WS_NEVER;
        ws_port_serve(sw, port);
        break;
    case WS_EVENT_PAUSE:
        port = event->object;
        if (port->pauses && port->pauses->wake_at == event->time)
            ws_pfc_due(sw, port);
        break;
    case WS_EVENT_REQUEUE:
        sw->waiting--;
        ws_port_enqueue(sw, packet->port, packet);
        break;
    case WS_EVENT_REENTER:
        sw->waiting--;
        packet = current(sw, packet);
        if (packet)
            ws_ingress(sw, packet);
        break;
    case WS_EVENT_ARRIVE:
        packet = current(sw, packet);
        if (packet)
            receive(sw, packet, ws_port_at(sw, packet->port));
        break;
    }
    ws_ports_settle(sw);
}

static void run_until(ws_switch *sw, ws_time until)
{
    while (ws_events_next(&sw->events) <= until) {
        struct ws_event event = ws_events_pop(&sw->events);
        if (event.time > sw->now)
            sw->now = event.time;
        run_event(sw, &event);
    }
    if (until > sw->now)
        sw->now = until;
}

void ws_advance(ws_switch *sw, ws_time now) { run_until(sw, now > sw->now ? now : sw->now); }

ws_time ws_next_event(const ws_switch *sw)
{
    ws_time event = ws_events_next(&sw->events), output = ws_output_next(&sw->outputs);
    return event < output ? event : output;
}

static inline void arrive(ws_switch *sw, struct ws_packet *packet, struct ws_port *port, ws_time arrival, ws_time now)
{
    if (arrival > now) {
        packet->port = port->number;
        if (!ws_events_push(&sw->events, arrival, WS_EVENT_ARRIVE, port->number, packet)) {
            sw->stats.drop_no_memory++;
            ws_packet_free(packet);
        }
        return;
    }
    run_until(sw, arrival > sw->now ? arrival : sw->now);
    receive(sw, packet, port);
    ws_ports_settle(sw);
}

static void set_tail(struct ws_packet *packet, uint32_t length, uint64_t seed)
{
    packet->tail = length;
    packet->tail_seed = seed;
    packet->ctx.packet_length = packet->ctx.ingress_length = packet->ctx.data_len + length;
}

static __attribute__((cold, noinline)) void arrive_impaired(ws_switch *sw, struct ws_packet *packet,
                                                            struct ws_port *port, ws_time arrival, ws_time now)
{
    if (packet->tail && port->wires[WS_RECEIVE]->impair.corrupt) {
        packet = ws_packet_unfold(packet);
        if (!packet)
            return;
    }
    uint32_t length = packet->ctx.data_len, tail = packet->tail;
    struct ws_fate fate = ws_wire_pass(port->wires[WS_RECEIVE], packet->frame, length, tail, arrival, 0);
    if (fate.lost) {
        ws_packet_free(packet);
        return;
    }
    struct ws_packet *copy = fate.copies > 1 ? ws_packet_new(packet->pool, length) : NULL;
    if (copy) {
        memcpy(copy->frame, packet->frame, length);
        set_tail(copy, tail, packet->tail_seed);
    }
    arrive(sw, packet, port, fate.at[0], now);
    if (copy)
        arrive(sw, copy, port, fate.at[1], now);
}

static void inject_one(ws_switch *sw, const struct ws_packet_in *in, ws_time now)
{
    struct ws_port *port = ws_port_at(sw, in->port);
    if (!port) {
        sw->stats.drop_bad_port++;
        return;
    }
    if (!sw->program) {
        sw->stats.drop_no_pipeline++;
        return;
    }
    if (in->length > WS_PACKET_BIG || in->tail_length > WS_PACKET_BIG - in->length) { /* longer than any frame */
        sw->stats.drop_ingress++;
        return;
    }
    struct ws_packet *packet = ws_packet_new(&sw->program->pool, in->length);
    if (!packet)
        return;
    memcpy(packet->frame, in->data, in->length);
    if (in->tail_length)
        set_tail(packet, in->tail_length, in->tail_seed);
    ws_time arrival = (in->at ? in->at : now) + port->config.rx_delay_ps;
    if (port->wires[WS_RECEIVE] && port->state != WS_PORT_DOWN)
        arrive_impaired(sw, packet, port, arrival, now);
    else
        arrive(sw, packet, port, arrival, now);
}

void ws_inject(ws_switch *sw, const struct ws_packet_in *packets, size_t n, ws_time now)
{
    if (now < sw->now)
        now = sw->now;
    for (size_t i = 0; i < n; i++)
        inject_one(sw, &packets[i], now);
    run_until(sw, now);
}
