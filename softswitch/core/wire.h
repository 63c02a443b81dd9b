/* Wires: owns what goes wrong on a link, one wire for each direction of a port, and its random numbers.
 *
 *     frame -> flow filter -> loss -> FCS -> silent corruption -> duplication -> held back | jitter -> far end
 */
#ifndef WEFT_WIRE_H
#define WEFT_WIRE_H

#include "weft_switch.h"

enum {
    WS_FRAME_OVERHEAD = 24,  /* preamble 8, FCS 4, gap 12 */
    WS_FRAME_MIN = 84,       /* a minimum frame with its overhead */
};

/* What a frame of `length` bytes takes of a wire: with preamble, FCS and gap. */
static inline uint32_t ws_wire_bytes(uint32_t length)
{
    uint32_t bytes = length + WS_FRAME_OVERHEAD;
    return bytes < WS_FRAME_MIN ? WS_FRAME_MIN : bytes;
}

/* A generator for each kind, so that changing one impairment leaves the fate of frames under the others alone. */
enum ws_draw {
    WS_DRAW_FLOW,
    WS_DRAW_STATE,
    WS_DRAW_LOSS,
    WS_DRAW_FCS,
    WS_DRAW_CORRUPT,
    WS_DRAW_DUPLICATE,
    WS_DRAW_REORDER,
    WS_DRAW_JITTER,
    WS_DRAWS,
};

struct ws_wire {
    struct ws_port_impair impair;
    struct ws_impair_stats stats;
    uint64_t random[WS_DRAWS];
    ws_time last;   /* when the latest frame that was not held back arrives: jitter keeps their order */
    uint8_t seeded;
    uint8_t bad;    /* the Gilbert-Elliott state */
};

/* What becomes of a frame. */
struct ws_fate {
    uint8_t lost;
    uint8_t copies; /* 1, or 2 when it is duplicated */
    ws_time at[2];  /* when each arrives */
};

/* Draws the fate of a frame of `length` bytes, and `tail` more that are not here, that would arrive at `at`; flips a bit of `frame` when it is to be
 * corrupted (no tail then). `slot`: what a frame takes of the wire, which a duplicate takes once more. */
struct ws_fate ws_wire_pass(struct ws_wire *wire, uint8_t *frame, uint32_t length, uint32_t tail, ws_time at,
                            ws_time slot);

/* 0: values out of range. */
int ws_impair_valid(const struct ws_port_impair *impair);
/* Whether it does anything at all. */
int ws_impair_active(const struct ws_port_impair *impair);
/* Sets what goes wrong. The generators start again only if the wire is new or its seed changes. */
void ws_wire_set(struct ws_wire *wire, const struct ws_port_impair *impair, uint64_t switch_seed, uint32_t port,
                 enum ws_direction direction);

#endif
