#include "port.h"

#include <stdlib.h>
#include <string.h>

#include "pipeline.h"
#include "switch.h"
#include "trace.h"

static const ws_time PS_PER_S = 1000000000000;

struct ws_port *ws_port_at(ws_switch *sw, uint32_t number)
{
    struct ws_ports *ports = &sw->ports;
    if (number < ports->capacity && ports->table[number])
        return ports->table[number];
    if (number >= WS_PORTS_MAX)
        return NULL;
    if (number >= ports->capacity) {
        uint32_t capacity = ports->capacity ? ports->capacity : 64;
        while (capacity <= number)
            capacity *= 2;
        struct ws_port **table = realloc(ports->table, capacity * sizeof(struct ws_port *));
        if (!table)
            return NULL;
        memset(table + ports->capacity, 0, (capacity - ports->capacity) * sizeof(struct ws_port *));
        ports->table = table;
        ports->capacity = capacity;
    }
    struct ws_port *port = calloc(1, sizeof *port);
    if (!port)
        return NULL;
    port->number = number;
    port->wake_at = WS_NEVER;
    port->config.queue_packets = sw->config.queue_packets;
    ports->table[number] = port;
    return port;
}

static void wake_later(ws_switch *sw, struct ws_port *port, ws_time at)
{
    if (at >= port->wake_at)
        return;
    if (ws_events_push(&sw->events, at, WS_EVENT_PORT, port->number, port))
        port->wake_at = at;
}

/* Time on the wire, rounded up to a picosecond. */
static ws_time wire_time(const struct ws_port *port, uint32_t length)
{
    uint64_t bytes = (uint64_t)length + WS_FRAME_OVERHEAD;
    if (bytes < WS_FRAME_MIN)
        bytes = WS_FRAME_MIN;
    uint64_t rate = port->config.rate_bps;
    return (ws_time)((bytes * 8 * (uint64_t)PS_PER_S + rate - 1) / rate);
}

/* Runs egress and hands the packet to the wire, if it survives. */
static void depart(ws_switch *sw, struct ws_port *port, struct ws_packet *packet, uint64_t depth)
{
    if (!ws_egress(sw, packet, port->number, depth > WS_DEPTH_MAX ? WS_DEPTH_MAX : (uint32_t)depth))
        return;
    ws_time end = sw->now;
    if (port->config.rate_bps) {
        end += wire_time(port, packet->length);
        port->busy_until = end;
    }
    if (port->state == WS_PORT_DOWN) {
        port->stats.drop_down++;
        ws_trace_end(sw, packet, WS_TRACE_DROP_PORT_DOWN, port->number);
        ws_packet_free(packet);
        return;
    }
    port->stats.tx_packets++;
    port->stats.tx_bytes += packet->length;
    packet->kind = sw->config.cpu_port && port->number == sw->config.cpu_port ? WS_OUT_CPU : WS_OUT_PACKET;
    packet->port = port->number;
    packet->time = end + port->config.tx_delay_ps;
    ws_trace_end(sw, packet, packet->kind == WS_OUT_CPU ? WS_TRACE_TO_CPU : WS_TRACE_SENT, port->number);
    if (!ws_output_add(&sw->outputs, packet))
        ws_packet_free(packet);
}

/* The highest priority that may send now, or -1; `*later` = when that can change by time alone. */
static int next_priority(const ws_switch *sw, const struct ws_port *port, ws_time *later)
{
    uint32_t open = port->nonempty & ~port->pause_mask;
    while (open) {
        int priority = 31 - __builtin_clz(open);
        ws_time release = port->queues[priority].head->time;
        if (release <= sw->now)
            return priority;
        if (release < *later)
            *later = release;
        open &= ~(1u << priority);
    }
    return -1;
}

void ws_port_serve(ws_switch *sw, struct ws_port *port)
{
    if (sw->in_egress) {
        if (!port->ready) {
            port->ready = 1;
            port->next_ready = NULL;
            if (sw->ports.ready_head)
                sw->ports.ready_tail->next_ready = port;
            else
                sw->ports.ready_head = port;
            sw->ports.ready_tail = port;
        }
        return;
    }
    while (port->nonempty && port->state != WS_PORT_BLOCKED) {
        if (port->busy_until > sw->now) {
            wake_later(sw, port, port->busy_until);
            return;
        }
        ws_time later = WS_NEVER;
        int priority = next_priority(sw, port, &later);
        if (priority < 0) {
            if (later != WS_NEVER)
                wake_later(sw, port, later);
            return;
        }
        struct ws_queue *queue = &port->queues[priority];
        struct ws_packet *packet = queue->head;
        queue->head = packet->next;
        if (!queue->head)
            port->nonempty &= ~(1u << priority);
        queue->packets--;
        queue->bytes -= packet->queued_bytes;
        queue->cells -= packet->cells;
        port->stats.depth_packets--;
        port->stats.depth_bytes -= packet->queued_bytes;
        depart(sw, port, packet, sw->config.depth_cell_bytes ? queue->cells : queue->packets);
    }
}

void ws_ports_settle(ws_switch *sw)
{
    while (sw->ports.ready_head) {
        struct ws_port *port = sw->ports.ready_head;
        sw->ports.ready_head = port->next_ready;
        port->ready = 0;
        ws_port_serve(sw, port);
    }
}

void ws_port_enqueue(ws_switch *sw, uint32_t number, struct ws_packet *packet)
{
    struct ws_port *port = ws_port_at(sw, number);
    struct wp_std *std = &packet->phv->std;
    uint32_t priority = std->priority;
    if (!port || priority >= sw->config.priorities) {
        if (port)
            sw->stats.drop_bad_priority++;
        else
            sw->stats.drop_bad_port++;
        ws_trace_end(sw, packet, port ? WS_TRACE_DROP_BAD_PRIORITY : WS_TRACE_DROP_BAD_PORT, number);
        ws_packet_free(packet);
        return;
    }
    struct ws_queue *queue = &port->queues[priority];
    uint64_t depth = sw->config.depth_cell_bytes ? queue->cells : queue->packets;
    std->enq_timestamp = ws_ticks(sw) & UINT32_MAX;
    std->enq_qdepth = depth > WS_DEPTH_MAX ? WS_DEPTH_MAX : (uint32_t)depth;
    packet->priority = (uint8_t)priority;
    packet->time = sw->now;
    ws_trace(sw, packet, WS_TRACE_ENQUEUE, number, priority, std->enq_qdepth, queue->packets, queue->bytes);
    if (!port->nonempty && !sw->in_egress && !port->release_step && port->busy_until <= sw->now &&
        port->state != WS_PORT_BLOCKED && !(port->pause_mask >> priority & 1)) {
        depart(sw, port, packet, 0);
        return;
    }
    uint32_t bytes = packet->ctx.packet_length;
    if ((port->config.queue_packets && queue->packets >= port->config.queue_packets) ||
        (port->config.queue_bytes && queue->bytes + bytes > port->config.queue_bytes)) {
        port->stats.drop_queue++;
        ws_trace_end(sw, packet, WS_TRACE_DROP_QUEUE, number);
        ws_packet_free(packet);
        return;
    }
    if (port->release_step) {
        if (queue->last_release + port->release_step > packet->time)
            packet->time = queue->last_release + port->release_step;
        queue->last_release = packet->time;
    }
    packet->queued_bytes = bytes;
    packet->cells = sw->config.depth_cell_bytes
                        ? (bytes + sw->config.depth_cell_bytes - 1) / sw->config.depth_cell_bytes
                        : 0;
    packet->next = NULL;
    if (port->nonempty >> priority & 1)
        queue->tail->next = packet;
    else
        queue->head = packet;
    queue->tail = packet;
    port->nonempty |= 1u << priority;
    queue->packets++;
    queue->bytes += bytes;
    queue->cells += packet->cells;
    port->stats.depth_bytes += bytes;
    if (++port->stats.depth_packets > port->stats.max_depth_packets)
        port->stats.max_depth_packets = port->stats.depth_packets;
    ws_port_serve(sw, port);
}

void ws_ports_forget_packets(struct ws_ports *ports)
{
    for (uint32_t i = 0; i < ports->capacity; i++) {
        struct ws_port *port = ports->table[i];
        if (!port)
            continue;
        memset(port->queues, 0, sizeof port->queues);
        port->nonempty = 0;
        port->ready = 0;
        port->wake_at = WS_NEVER;
        port->stats.depth_packets = 0;
        port->stats.depth_bytes = 0;
    }
    ports->ready_head = ports->ready_tail = NULL;
}

void ws_ports_free(struct ws_ports *ports)
{
    for (uint32_t i = 0; i < ports->capacity; i++)
        free(ports->table[i]);
    free(ports->table);
    *ports = (struct ws_ports){0};
}

/* --- public ------------------------------------------------------------------------------- */

int ws_set_port(ws_switch *sw, uint32_t number, enum ws_port_state state, uint32_t pause_mask, ws_time now)
{
    struct ws_port *port = ws_port_at(sw, number);
    if (!port || (unsigned)state > WS_PORT_BLOCKED)
        return WS_EINVAL;
    ws_advance(sw, now);
    int changes = (port->state == WS_PORT_DOWN) != (state == WS_PORT_DOWN);
    port->state = state;
    port->pause_mask = pause_mask;
    if (changes)
        ws_profiles_follow_ports(sw);
    ws_port_serve(sw, port);
    ws_ports_settle(sw);
    return WS_OK;
}

int ws_port_state_get(const ws_switch *sw, uint32_t number, enum ws_port_state *state, uint32_t *pause_mask)
{
    if (number >= WS_PORTS_MAX)
        return WS_EINVAL;
    const struct ws_port *port = number < sw->ports.capacity ? sw->ports.table[number] : NULL;
    *state = port ? port->state : WS_PORT_UP;
    *pause_mask = port ? port->pause_mask : 0;
    return WS_OK;
}

int ws_configure_port(ws_switch *sw, uint32_t number, const struct ws_port_config *config)
{
    struct ws_port *port = ws_port_at(sw, number);
    if (!port || config->tx_delay_ps < 0 || config->rx_delay_ps < 0)
        return WS_EINVAL;
    if (port->config.rate_pps != config->rate_pps || !config->rate_pps)
        for (int c = 0; c < WS_PRIORITIES_MAX; c++)
            port->queues[c].last_release = -PS_PER_S * 3600;
    port->config = *config;
    port->release_step = config->rate_pps ? PS_PER_S / (ws_time)config->rate_pps : 0;
    ws_port_serve(sw, port);
    ws_ports_settle(sw);
    return WS_OK;
}

int ws_port_config_get(const ws_switch *sw, uint32_t number, struct ws_port_config *config)
{
    if (number >= WS_PORTS_MAX)
        return WS_EINVAL;
    if (number < sw->ports.capacity && sw->ports.table[number])
        *config = sw->ports.table[number]->config;
    else
        *config = (struct ws_port_config){.queue_packets = sw->config.queue_packets};
    return WS_OK;
}

int ws_port_stats_get(const ws_switch *sw, uint32_t number, struct ws_port_stats *stats)
{
    if (number >= WS_PORTS_MAX)
        return WS_EINVAL;
    *stats = (struct ws_port_stats){0};
    if (number < sw->ports.capacity && sw->ports.table[number])
        *stats = sw->ports.table[number]->stats;
    return WS_OK;
}
