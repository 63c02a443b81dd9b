#include "port.h"

#include <stdlib.h>
#include <string.h>

#include "buffer.h"
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
        if (!table) {
            sw->stats.drop_no_memory++;
            return NULL;
        }
        memset(table + ports->capacity, 0, (capacity - ports->capacity) * sizeof(struct ws_port *));
        ports->table = table;
        ports->capacity = capacity;
    }
    struct ws_port *port = ws_memory_get(sizeof *port);
    if (!port) {
        sw->stats.drop_no_memory++;
        return NULL;
    }
    port->number = number;
    port->wake_at = WS_NEVER;
    port->config.queue_packets = sw->config.queue_packets;
    for (uint32_t q = 0; q < WS_PRIORITIES_MAX; q++)
        port->queues[q].above_at = -1;
    ports->table[number] = port;
    return port;
}

static void wake_later(ws_switch *sw, struct ws_port *port, ws_time at)
{
    if (at >= port->wake_at)
        return;
    if (ws_events_push(&sw->events, at, WS_EVENT_PORT, port->number, port))
        port->wake_at = at;
    else
        sw->stats.drop_no_memory++;
}

/* Time on the wire, rounded up to a picosecond. */
static ws_time wire_time(const struct ws_port *port, uint32_t length)
{
    uint64_t bits = 8 * (uint64_t)ws_wire_bytes(length), rate = port->config.rate_bps;
    return (ws_time)((bits * (uint64_t)PS_PER_S + rate - 1) / rate);
}

static void settle_state(struct ws_port *port)
{
    port->state = (enum ws_port_state)port->asked;
    if (port->asked == WS_PORT_UP && port->metered)
        port->state = port->credit ? WS_PORT_GRANTED : WS_PORT_BLOCKED;
}

/* A packet that the driver will never see: it must not wait for the driver to grant another in its place. */
static __attribute__((cold, noinline)) void give_back(struct ws_port *port)
{
    if (!port->metered)
        return;
    port->credit++;
    settle_state(port);
}

static void emit(ws_switch *sw, struct ws_port *port, struct ws_packet *packet)
{
    if (ws_output_add(&sw->outputs, packet))
        return;
    sw->stats.drop_no_memory++;
    if (packet->granted)
        give_back(port);
    ws_packet_free(packet);
}

/* Hands a packet to a wire on which things go wrong. Kept out of the path of the others. */
static __attribute__((cold, noinline)) void emit_impaired(ws_switch *sw, struct ws_port *port,
                                                          struct ws_packet *packet)
{
    const int granted = packet->granted; /* a copy of it is not, nor is a pause */
    if (packet->tail && port->wires[WS_SEND]->impair.corrupt) {
        packet = ws_packet_unfold_out(packet);
        if (!packet) {
            if (granted)
                give_back(port);
            return;
        }
    }
    ws_time slot = port->config.rate_bps ? wire_time(port, ws_packet_total(packet)) : 0;
    struct ws_fate fate = ws_wire_pass(port->wires[WS_SEND], packet->out, packet->length, packet->tail, packet->time, slot);
    if (fate.lost) {
        ws_trace_end(sw, packet, WS_TRACE_LOST, port->number);
        if (granted)
            give_back(port);
        ws_packet_free(packet);
        return;
    }
    struct ws_packet *copy = fate.copies > 1 ? ws_packet_copy_out(packet) : NULL;
    packet->time = fate.at[0];
    if (copy)
        ws_trace_child(sw, copy, packet, WS_TRACE_DUPLICATE);
    if (packet->trace)
        ws_trace_sent(sw, packet);
    emit(sw, port, packet);
    if (!copy)
        return;
    copy->time = fate.at[1];
    if (copy->trace)
        ws_trace_sent(sw, copy);
    if (slot)
        port->busy_until += slot;
    emit(sw, port, copy);
}

/* Runs egress and hands the packet to the wire, if it survives. */
static void depart(ws_switch *sw, struct ws_port *port, struct ws_packet *packet, uint64_t depth)
{
    if (!ws_egress(sw, packet, port->number, depth > WS_DEPTH_MAX ? WS_DEPTH_MAX : (uint32_t)depth))
        return;
    ws_time end = sw->now;
    if (port->config.rate_bps) {
        if (port->busy_until > end)
            end = port->busy_until; /* its own egress clone made the port send a pause */
        end += wire_time(port, ws_packet_total(packet));
        port->busy_until = end;
    }
    if (port->state != WS_PORT_UP) {
        if (port->state == WS_PORT_DOWN) {
            port->stats.drop_down++;
            ws_trace_end(sw, packet, WS_TRACE_DROP_PORT_DOWN, port->number);
            ws_packet_free(packet);
            return;
        }
        port->credit--;
        packet->granted = 1;
        settle_state(port);
    }
    port->stats.tx_packets++;
    port->stats.tx_bytes += ws_packet_total(packet);
    packet->kind = sw->config.cpu_port && port->number == sw->config.cpu_port ? WS_OUT_CPU : WS_OUT_PACKET;
    packet->port = port->number;
    packet->time = end + port->config.tx_delay_ps;
    if (port->wires[WS_SEND]) {
        emit_impaired(sw, port, packet);
        return;
    }
    if (packet->trace)
        ws_trace_sent(sw, packet);
    emit(sw, port, packet);
}

void ws_port_insert(ws_switch *sw, struct ws_port *port, struct ws_packet *packet)
{
    ws_time end = port->busy_until > sw->now ? port->busy_until : sw->now;
    if (port->config.rate_bps) {
        end += wire_time(port, packet->length);
        port->busy_until = end;
    }
    packet->kind = WS_OUT_PACKET;
    packet->port = port->number;
    packet->time = end + port->config.tx_delay_ps;
    if (port->wires[WS_SEND])
        emit_impaired(sw, port, packet);
    else
        emit(sw, port, packet);
}

uint32_t ws_port_flush(ws_switch *sw, struct ws_port *port, uint32_t number)
{
    struct ws_queue *queue = &port->queues[number];
    struct ws_packet *packet = queue->head;
    uint32_t n = queue->packets;
    port->stats.depth_packets -= queue->packets;
    port->stats.depth_bytes -= queue->bytes;
    queue->head = queue->tail = NULL;
    queue->packets = 0;
    queue->bytes = queue->cells = 0;
    port->nonempty &= ~(1u << number);
    port->round.deficit[number] = 0;
    while (packet) {
        struct ws_packet *next = packet->next;
        struct ws_hold hold = ws_buffer_hold(packet);
        ws_trace_end(sw, packet, WS_TRACE_DROP_QUEUE, port->number);
        ws_packet_free(packet);
        if (hold.where)
            ws_buffer_release(sw, hold);
        packet = next;
    }
    return n;
}

/* The weighted queue whose turn it is among those in `open`, or -1. */
static __attribute__((noinline)) int next_weighted(const ws_switch *sw, struct ws_port *port, uint32_t open,
                                                   ws_time *later)
{
    uint32_t due = 0;
    for (uint32_t left = open; left; left &= left - 1) {
        uint32_t priority = (uint32_t)__builtin_ctz(left);
        ws_time release = port->queues[priority].head->time;
        if (release <= sw->now)
            due |= 1u << priority;
        else if (release < *later)
            *later = release;
    }
    if (!due)
        return -1;
    struct ws_round *round = &port->round;
    for (;;) {
        uint8_t turn = round->turn;
        if (due >> turn & 1) {
            if (!round->begun) {
                round->begun = 1;
                round->deficit[turn] += round->quantum[turn];
            }
            uint32_t cost = ws_wire_bytes(port->queues[turn].head->queued_bytes);
            if (cost <= round->deficit[turn]) {
                round->deficit[turn] -= cost;
                return turn;
            }
        }
        round->turn = (turn + 1) % WS_PRIORITIES_MAX;
        round->begun = 0;
    }
}

/* The priority that may send now, or -1; `*later` = when that can change by time alone. */
static int next_priority(const ws_switch *sw, struct ws_port *port, ws_time *later)
{
    uint32_t ready = port->nonempty & ~port->pause_mask;
    uint32_t open = ready & ~port->weighted;
    while (open) {
        int priority = 31 - __builtin_clz(open);
        ws_time release = port->queues[priority].head->time;
        if (release <= sw->now)
            return priority;
        if (release < *later)
            *later = release;
        open &= ~(1u << priority);
    }
    return ready & port->weighted ? next_weighted(sw, port, ready & port->weighted, later) : -1;
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
        if (queue->head) {
            ws_packet_prefetch(queue->head, packet->pool);
        } else {
            port->nonempty &= ~(1u << priority);
            if (port->weighted)
                port->round.deficit[priority] = 0;
        }
        queue->packets--;
        queue->bytes -= packet->queued_bytes;
        queue->cells -= packet->cells;
        port->stats.depth_packets--;
        port->stats.depth_bytes -= packet->queued_bytes;
        port->stats.waited++;
        port->stats.wait_ps += (uint64_t)(sw->now - packet->queued_at);
        struct ws_hold hold = ws_buffer_hold(packet);
        depart(sw, port, packet, sw->config.depth_cell_bytes ? queue->cells : queue->packets);
        if (hold.where)
            ws_buffer_release(sw, hold);
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
    if (packet->trace)
        ws_trace_queued(sw, packet, port);
    if (!port->nonempty && !sw->in_egress && !port->release_step && port->busy_until <= sw->now &&
        port->state != WS_PORT_BLOCKED && !(port->pause_mask >> priority & 1)) {
        depart(sw, port, packet, 0);
        return;
    }
    uint32_t bytes = packet->ctx.packet_length;
    packet->cells = 0;
    if (sw->config.depth_cell_bytes || port->config.queue_cells) {
        uint32_t cell = sw->config.depth_cell_bytes ? sw->config.depth_cell_bytes : WS_CELL_BYTES;
        packet->cells = (bytes + cell - 1) / cell;
    }
    if (sw->buffer) {
        packet->queued_bytes = bytes;
        if (!ws_buffer_admit(sw, port, packet, bytes)) {
            ws_trace_end(sw, packet, WS_TRACE_DROP_BUFFER, number);
            ws_packet_free(packet);
            return;
        }
    }
    uint32_t most = port->apart ? port->limits->queues[priority].packets : port->config.queue_packets;
    if (packet->buffered && ws_buffer_lossless(sw, packet))
        ; /* the buffer alone decides */
    else if ((most && queue->packets >= most) || most == WS_QUEUE_CLOSED ||
        (port->config.queue_bytes && queue->bytes + bytes > port->config.queue_bytes) ||
        (port->config.queue_cells && queue->cells + packet->cells > port->config.queue_cells)) {
        struct ws_hold hold = ws_buffer_hold(packet);
        port->stats.drop_queue++;
        ws_trace_end(sw, packet, WS_TRACE_DROP_QUEUE, number);
        ws_packet_free(packet);
        if (hold.where)
            ws_buffer_release(sw, hold);
        return;
    }
    packet->queued_at = sw->now;
    if (port->release_step) {
        ws_time step = port->apart ? port->limits->release_step[priority] : port->release_step;
        if (port->last_release[priority] + step > packet->time)
            packet->time = port->last_release[priority] + step;
        port->last_release[priority] = packet->time;
    }
    packet->queued_bytes = bytes;
    packet->next = NULL;
    if (port->nonempty >> priority & 1)
        queue->tail->next = packet;
    else
        queue->head = packet;
    queue->tail = packet;
    port->nonempty |= 1u << priority;
    port->used |= (uint8_t)(1u << priority);
    queue->packets++;
    queue->bytes += bytes;
    queue->cells += packet->cells;
    if (queue->bytes > queue->peak_bytes) {
        queue->peak_bytes = queue->bytes;
        if (queue->bytes > queue->watched_bytes && queue->above_at < 0)
            queue->above_at = sw->now;
    }
    port->stats.depth_bytes += bytes;
    if (++port->stats.depth_packets > port->stats.max_depth_packets)
        port->stats.max_depth_packets = port->stats.depth_packets;
    ws_port_serve(sw, port);
}

static void give_back_output(ws_switch *sw, const struct ws_packet *packet)
{
    if (packet->granted)
        give_back(sw->ports.table[packet->port]);
}

void ws_ports_forget_packets(ws_switch *sw)
{
    struct ws_ports *ports = &sw->ports;
    for (const struct ws_packet *packet = sw->outputs.head; packet; packet = packet->next)
        give_back_output(sw, packet);
    for (size_t i = 0; i < sw->outputs.n; i++)
        give_back_output(sw, sw->outputs.heap[i]);
    for (uint32_t i = 0; i < ports->capacity; i++) {
        struct ws_port *port = ports->table[i];
        if (!port)
            continue;
        memset(port->queues, 0, sizeof port->queues);
        for (uint32_t q = 0; q < WS_PRIORITIES_MAX; q++)
            port->queues[q].above_at = -1;
        memset(port->last_release, 0, sizeof port->last_release);
        memset(port->round.deficit, 0, sizeof port->round.deficit);
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
    for (uint32_t i = 0; i < ports->capacity; i++) {
        if (!ports->table[i])
            continue;
        free(ports->table[i]->wires_made[WS_SEND]);
        free(ports->table[i]->wires_made[WS_RECEIVE]);
        free(ports->table[i]->pauses);
        free(ports->table[i]->limits);
        ws_memory_put(ports->table[i], sizeof *ports->table[i]);
    }
    free(ports->table);
    *ports = (struct ws_ports){0};
}

/* --- public ------------------------------------------------------------------------------- */

int ws_report_ports(ws_switch *sw, uint32_t in, const uint8_t *data, uint32_t length)
{
    if ((length && length < 4) || length > WS_REPORT_BYTES || in >= WS_PORTS_MAX)
        return WS_EINVAL;
    sw->report_port = in;
    sw->report_length = length;
    if (length)
        memcpy(sw->report, data, length);
    return WS_OK;
}

static void report_port(ws_switch *sw, uint32_t number, int up)
{
    uint8_t *end = sw->report + sw->report_length;
    end[-4] = (uint8_t)(number >> 8);
    end[-3] = (uint8_t)number;
    end[-2] = 0;
    end[-1] = (uint8_t)up;
    struct ws_packet_in packet = {.port = sw->report_port, .length = sw->report_length, .data = sw->report};
    ws_inject(sw, &packet, 1, sw->now);
}

void ws_report_down_ports(ws_switch *sw)
{
    if (!sw->report_length || !sw->program)
        return;
    for (uint32_t number = 0; number < sw->ports.capacity; number++)
        if (sw->ports.table[number] && sw->ports.table[number]->state == WS_PORT_DOWN)
            report_port(sw, number, 0);
}

int ws_set_port(ws_switch *sw, uint32_t number, enum ws_port_state state, uint32_t pause_mask, ws_time now)
{
    struct ws_port *port = ws_port_at(sw, number);
    if (!port || (unsigned)state > WS_PORT_BLOCKED)
        return WS_EINVAL;
    ws_advance(sw, now);
    int changes = (port->state == WS_PORT_DOWN) != (state == WS_PORT_DOWN);
    port->asked = (uint8_t)state;
    settle_state(port);
    port->asked_mask = pause_mask;
    port->pause_mask = pause_mask | (port->pauses ? port->pauses->mask | port->pauses->storm : 0);
    if (state == WS_PORT_DOWN)
        ws_pfc_forget(sw, port);
    else if (changes)
        ws_pfc_remind(sw, port);
    if (changes)
        ws_profiles_follow_ports(sw);
    ws_port_serve(sw, port);
    ws_ports_settle(sw);
    if (changes && sw->report_length && sw->program)
        report_port(sw, number, state != WS_PORT_DOWN);
    return WS_OK;
}

int ws_grant_port(ws_switch *sw, uint32_t number, uint32_t packets, ws_time now)
{
    struct ws_port *port = ws_port_at(sw, number);
    if (!port)
        return WS_EINVAL;
    ws_advance(sw, now);
    port->metered = packets != WS_UNLIMITED;
    port->credit = packets;
    settle_state(port);
    ws_port_serve(sw, port);
    ws_ports_settle(sw);
    return WS_OK;
}

int ws_port_state_get(const ws_switch *sw, uint32_t number, enum ws_port_state *state, uint32_t *pause_mask)
{
    if (number >= WS_PORTS_MAX)
        return WS_EINVAL;
    const struct ws_port *port = number < sw->ports.capacity ? sw->ports.table[number] : NULL;
    *state = !port || port->state == WS_PORT_GRANTED ? WS_PORT_UP : port->state;
    *pause_mask = port ? port->asked_mask : 0;
    return WS_OK;
}

int ws_port_is_up(const ws_switch *sw, uint32_t number)
{
    enum ws_port_state state;
    uint32_t pause_mask;
    return ws_port_state_get(sw, number, &state, &pause_mask) == WS_OK && state != WS_PORT_DOWN;
}

int ws_configure_port(ws_switch *sw, uint32_t number, const struct ws_port_config *config)
{
    struct ws_port *port = ws_port_at(sw, number);
    if (!port || config->tx_delay_ps < 0 || config->tx_delay_ps > WS_DELAY_MAX || config->rx_delay_ps < 0 ||
        config->rx_delay_ps > WS_DELAY_MAX)
        return WS_EINVAL;
    if (port->config.rate_pps != config->rate_pps || !config->rate_pps)
        for (int c = 0; c < WS_PRIORITIES_MAX; c++)
            port->last_release[c] = WS_LONG_AGO;
    port->config = *config;
    ws_port_limits_follow(port);
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
