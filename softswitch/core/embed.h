/* What an engine that runs many switches may use of them: this header and what it includes, and nothing else of this folder.
 *
 * weft_switch.h is the switch's whole face; memory.h and wire.h have no switch in them and are shared. What stands here is
 * for speed: what is asked at each hop without a call, and what brings a switch near before its turn.
 */
#ifndef WEFT_EMBED_H
#define WEFT_EMBED_H

#include "memory.h"
#include "weft_switch.h"
#include "wire.h"

/* When the switch has something to do by itself, WS_NEVER: not before something arrives. Other than ws_next_event it leaves
 * out what waits to be taken: for an engine that takes outputs at once. A switch begins with it. */
static inline ws_time ws_own_next(const ws_switch *sw) { return *(const ws_time *)(const void *)sw; }

/* How often there was no memory for a packet, as ws_stats has it. */
uint64_t ws_no_memory(const ws_switch *sw);

/* What waits in a queue of a port. */
struct ws_depth {
    uint32_t queue, packets;
    uint64_t bytes;
    uint32_t paused, pad_;
};
/* Queues in which something waits, or that may not send; returns how many, at most WS_PRIORITIES_MAX. */
uint32_t ws_depths_get(const ws_switch *sw, uint32_t port, struct ws_depth *rows);

/* Bring near what a switch will need, with `ports` numbered from 0: it has not run for a while. The first when its turn is
 * the next but one, then when it is next, then just before it runs. `busy`: enough will come for its tables to be worth it. */
void ws_near_soon(const ws_switch *sw, uint32_t ports, int busy);
void ws_near_next(const ws_switch *sw, uint32_t ports, int busy);
void ws_near_now(const ws_switch *sw, uint32_t ports, int busy);

/* The lines of the cache from `what` on. */
static inline void ws_bring(const void *what, size_t bytes)
{
    const uintptr_t end = (uintptr_t)what + bytes;
    for (uintptr_t line = (uintptr_t)what & ~(uintptr_t)(WS_LINE - 1); line < end; line += WS_LINE)
        __builtin_prefetch((const void *)line, 0, 2);
}

#endif
