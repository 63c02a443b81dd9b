/* Tracing: owns the tracers of a switch, the buffer of records, and what goes into it.
 *
 * A packet is traced while its `trace` is not 0: the number of its branch. Every function takes any packet and does
 * nothing for one that is not traced, at the price of that test.
 */
#ifndef WEFT_TRACE_H
#define WEFT_TRACE_H

#include "packet.h"
#include "port.h"
#include "program.h"

/* Hardly ever: kept out of the way of untraced packets. */
#define WS_COLD __attribute__((cold))

/* env->trace */
void ws_trace_step(const struct wp_ctx *ctx, const struct wp_phv *phv, const struct wp_trace_step *step);

/* `packet` has arrived at `port`; traced from here on when a tracer takes it. */
WS_COLD void ws_trace_arrived(ws_switch *sw, struct ws_packet *packet, uint32_t port);
WS_COLD void ws_trace_begin_child(ws_switch *sw, struct ws_packet *child, const struct ws_packet *parent,
                                  enum ws_trace_origin origin);
WS_COLD void ws_trace_note(ws_switch *sw, const struct ws_packet *packet, enum ws_trace_kind kind, uint32_t a,
                           uint32_t b, uint32_t c, uint64_t x, uint64_t y);
/* `packet` is about to wait in its queue of `port`; `packet` is on the wire. Only for traced ones. */
WS_COLD void ws_trace_queued(ws_switch *sw, const struct ws_packet *packet, const struct ws_port *port);
WS_COLD void ws_trace_sent(ws_switch *sw, struct ws_packet *packet);
WS_COLD void ws_trace_text(ws_switch *sw, const struct ws_packet *packet, uint32_t kind, const char *text);
WS_COLD void ws_trace_finish(ws_switch *sw, struct ws_packet *packet, enum ws_trace_end why, uint32_t port);
void ws_trace_unloaded(ws_switch *sw);
void ws_trace_free(ws_switch *sw);

/* The packet that generated code runs for. */
static inline struct ws_packet *ws_packet_of(const struct wp_ctx *ctx)
{
    return (struct ws_packet *)((uint8_t *)(uintptr_t)ctx - offsetof(struct ws_packet, ctx));
}

/* Something made of `parent` begins; call it before `parent` ends. */
static inline void ws_trace_child(ws_switch *sw, struct ws_packet *child, const struct ws_packet *parent,
                                  enum ws_trace_origin origin)
{
    if (parent->trace)
        ws_trace_begin_child(sw, child, parent, origin);
}

static inline void ws_trace(ws_switch *sw, const struct ws_packet *packet, enum ws_trace_kind kind, uint32_t a,
                            uint32_t b, uint32_t c, uint64_t x, uint64_t y)
{
    if (packet->trace)
        ws_trace_note(sw, packet, kind, a, b, c, x, y);
}

/* `packet` goes no further. */
static inline void ws_trace_end(ws_switch *sw, struct ws_packet *packet, enum ws_trace_end why, uint32_t port)
{
    if (packet->trace)
        ws_trace_finish(sw, packet, why, port);
}

#endif
