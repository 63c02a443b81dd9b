/* The switch: owns the parts of one switch, its clock and its pipeline, and runs its events. */
#ifndef WEFT_SWITCH_INTERNAL_H
#define WEFT_SWITCH_INTERNAL_H

#include "embed.h"
#include "events.h"
#include "output.h"
#include "port.h"
#include "program.h"
#include "replicate.h"
#include "weft_switch.h"

struct ws_switch {
    struct ws_events events; /* first: embed.h reads when the next one is */
    struct ws_config config;
    ws_time now;
    ws_time ticks_at;  /* `now` when `ticks` was computed */
    uint64_t ticks;
    struct ws_program *program; /* NULL: none loaded. While egress runs: the packet's */
    struct ws_program *retired; /* older programs that still have packets */
    uint32_t programs;          /* how many there were */
    struct ws_replication replication;
    struct ws_ports ports;
    struct ws_outputs outputs;
    struct ws_buffer *buffer; /* NULL: ports' own limits alone hold */
    struct ws_stats stats;
    uint32_t waiting; /* packets on the recirculation path */
    uint8_t in_egress;
    uint64_t random;
    struct ws_trace *trace;  /* NULL: no tracer */
    uint32_t trace_branches; /* how many there were */
    void (*log)(void *opaque, int level, const char *line);
    void *log_opaque;
    ws_time endless_logged_at; /* when a packet's endless pass was last logged; 0: never */
    char error[512];
    uint32_t report_port, report_length; /* see ws_report_ports; 0 bytes: no reports */
    uint8_t report[WS_REPORT_BYTES];
};

_Static_assert(offsetof(struct ws_switch, events.next) == 0, "as embed.h reads it");

/* `now` in the program's ticks. */
static inline uint64_t ws_ticks(ws_switch *sw)
{
    if (sw->ticks_at != sw->now) {
        sw->ticks_at = sw->now;
        sw->ticks = (uint64_t)sw->now / (uint64_t)sw->config.tick_ps;
    }
    return sw->ticks;
}

#endif
