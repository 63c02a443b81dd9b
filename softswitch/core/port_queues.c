/* A port's queues apart: the public calls that name one of them, and how they share the port. */
#include <stdlib.h>
#include <string.h>

#include "port.h"
#include "switch.h"

static int no_queue(const ws_switch *sw, uint32_t number, uint32_t priority)
{
    return number >= WS_PORTS_MAX || priority >= sw->config.priorities;
}

void ws_port_limits_follow(struct ws_port *port)
{
    port->apart = 0;
    struct ws_queue_config each = {port->config.queue_packets, port->config.rate_pps};
    port->release_step = ws_release_step(&each);
}

int ws_configure_queue(ws_switch *sw, uint32_t number, uint32_t priority, const struct ws_queue_config *config)
{
    struct ws_port *port = no_queue(sw, number, priority) ? NULL : ws_port_at(sw, number);
    if (!port)
        return WS_EINVAL;
    if (!port->limits) {
        port->limits = malloc(sizeof *port->limits);
        if (!port->limits)
            return WS_ENOMEM;
    }
    struct ws_limits *limits = port->limits;
    for (uint32_t q = 0; q < WS_PRIORITIES_MAX && !port->apart; q++)
        limits->queues[q] = (struct ws_queue_config){port->config.queue_packets, port->config.rate_pps};
    if (limits->queues[priority].rate_pps != config->rate_pps || !config->rate_pps)
        port->last_release[priority] = WS_LONG_AGO;
    limits->queues[priority] = *config;
    port->apart = 1;
    port->release_step = 0; /* of any queue: then packets have to pass through theirs */
    for (uint32_t q = 0; q < sw->config.priorities; q++) {
        limits->release_step[q] = ws_release_step(&limits->queues[q]);
        if (limits->release_step[q])
            port->release_step = limits->release_step[q];
    }
    return WS_OK;
}

int ws_queue_config_get(const ws_switch *sw, uint32_t number, uint32_t priority, struct ws_queue_config *config)
{
    if (no_queue(sw, number, priority))
        return WS_EINVAL;
    const struct ws_port *port = number < sw->ports.capacity ? sw->ports.table[number] : NULL;
    if (port && port->apart)
        *config = port->limits->queues[priority];
    else if (port)
        *config = (struct ws_queue_config){port->config.queue_packets, port->config.rate_pps};
    else
        *config = (struct ws_queue_config){.packets = sw->config.queue_packets};
    return WS_OK;
}

int ws_schedule_port(ws_switch *sw, uint32_t number, const struct ws_scheduler *scheduler)
{
    struct ws_port *port = ws_port_at(sw, number);
    if (!port)
        return WS_EINVAL;
    uint32_t weighted = 0;
    for (int c = 0; c < WS_PRIORITIES_MAX; c++) {
        uint32_t quantum = scheduler->quantum[c];
        if (quantum && (quantum < WS_QUANTUM_MIN || quantum > WS_QUANTUM_MAX))
            return WS_EINVAL;
        weighted |= quantum ? 1u << c : 0;
    }
    port->weighted = weighted;
    port->round = (struct ws_round){0};
    memcpy(port->round.quantum, scheduler->quantum, sizeof port->round.quantum);
    ws_port_serve(sw, port);
    ws_ports_settle(sw);
    return WS_OK;
}

int ws_port_scheduler_get(const ws_switch *sw, uint32_t number, struct ws_scheduler *scheduler)
{
    if (number >= WS_PORTS_MAX)
        return WS_EINVAL;
    *scheduler = (struct ws_scheduler){0};
    if (number < sw->ports.capacity && sw->ports.table[number])
        memcpy(scheduler->quantum, sw->ports.table[number]->round.quantum, sizeof scheduler->quantum);
    return WS_OK;
}

int ws_queue_watch(ws_switch *sw, uint32_t number, uint32_t priority, uint64_t bytes)
{
    struct ws_port *port = ws_port_at(sw, number);
    if (!port || priority >= sw->config.priorities)
        return WS_EINVAL;
    struct ws_queue *queue = &port->queues[priority];
    queue->watched_bytes = bytes;
    queue->peak_bytes = queue->bytes;
    queue->above_at = queue->bytes > bytes ? sw->now : -1;
    return WS_OK;
}

int ws_queue_peak_get(const ws_switch *sw, uint32_t number, uint32_t priority, struct ws_queue_peak *peak)
{
    if (number >= WS_PORTS_MAX || priority >= sw->config.priorities)
        return WS_EINVAL;
    *peak = (struct ws_queue_peak){.above_at = -1};
    if (number < sw->ports.capacity && sw->ports.table[number]) {
        const struct ws_queue *queue = &sw->ports.table[number]->queues[priority];
        *peak = (struct ws_queue_peak){.bytes = queue->peak_bytes, .above_at = queue->above_at};
    }
    return WS_OK;
}
