/* Tracing: owns the tracers of a switch, the buffer of records, and what goes into it.
 *
 * A packet is traced while its `trace` is not 0: the number of its branch. Every function takes any packet and does
 * nothing for one that is not traced, at the price of that test.
 */
#ifndef WEFT_TRACE_H
#define WEFT_TRACE_H

#include "packet.h"
#include "program.h"

/* env->trace */
void ws_trace_step(const struct wp_ctx *ctx, const struct wp_phv *phv, const struct wp_trace_step *step);

/* `packet` has arrived at `port`; traced from here on when a tracer takes it. */
void ws_trace_arrived(ws_switch *sw, struct ws_packet *packet, uint32_t port);
void ws_trace_begin_child(ws_switch *sw, struct ws_packet *child, const struct ws_packet *parent,
                          enum ws_trace_origin origin);
void ws_trace_note(ws_switch *sw, const struct ws_packet *packet, enum ws_trace_kind kind, uint32_t a, uint32_t b,
                   uint32_t c, uint64_t x, uint64_t y);
void ws_trace_text(ws_switch *sw, const struct ws_packet *packet, uint32_t kind, const char *text);
void ws_trace_finish(ws_switch *sw, struct ws_packet *packet, enum ws_trace_end why, uint32_t port);
void ws_trace_unloaded(ws_switch *sw);
void ws_trace_free(ws_switch *sw);

/* The packet that generated code runs for. */
static inline struct ws_packet *ws_packet_of(const struct wp_ctx *ctx)
{
    return (struct ws_packet *)((uint8_t *)(uintptr_t)ctx - offsetof(struct ws_packet, ctx));
}

/* What runs `packet` in the current program. */
static inline const struct wp_pipeline *ws_variant_of(const struct ws_program *program, const struct ws_packet *packet)
{
    return packet->trace ? program->variant.pipeline : program->pipeline;
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
