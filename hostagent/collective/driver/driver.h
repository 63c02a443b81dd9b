/* A worker in real time: owns its UDP socket, its thread, the clock, and the calls that were handed to it.
 *
 * The thread touches no Python. Whoever hands over a call keeps its memory until collective_next has returned it.
 */
#ifndef WEFT_COLLECTIVE_DRIVER_H
#define WEFT_COLLECTIVE_DRIVER_H

#include <stdint.h>

#include "blocks.h"
#include "worker.h"

enum { COLLECTIVE_WHY = 256 };

enum collective_end_status {
    COLLECTIVE_DONE = 0,
    COLLECTIVE_GIVEN_UP = 1, /* nothing came for `give_up_ns`: this call, and those behind it */
    COLLECTIVE_CLOSED = 2,
};

struct collective_config {
    struct worker_config worker;
    uint32_t ranks;
    uint32_t address, gateway; /* IPv4, host order */
    uint32_t dscp;
    int64_t give_up_ns;
    /* Of calls of blocks; 0: there are none. */
    uint32_t rank, block_lanes;
    uint64_t block_rate_bps; /* of the slowest link of the job's trees */
};

struct collective_end {
    uint64_t tag;
    uint32_t status, reserved;
};

struct collective_counters {
    struct worker_stats worker;
    uint64_t received, unsent; /* datagrams; those that the kernel refused */
    uint32_t window, epoch;
    struct blocks_stats blocks;
};

struct collective;

/* Binds the socket and starts the thread. NULL: `why` (COLLECTIVE_WHY bytes) says why not. */
struct collective *collective_open(const struct collective_config *config, char *why);
/* Hands over a call: `values` are summed into `sums`, n of each: int32, or float where it is scaled; a barrier has none.
 * Returns 0, or -1: no memory, more than 2^31 chunks, or closed. */
int collective_hand(struct collective *c, enum worker_kind kind, const void *values, void *sums, uint64_t n, uint64_t tag);
/* Hands over a call of blocks: `n` int32 of rank `root` come to `result` of all ranks, or those of each (BLOCKS_ALL) one behind the
 * other. `values`: this rank's own, of which there are none unless it sends. Calls that are handed over behind it wait for its end.
 * Returns 0, or -1: no memory, too many, or closed. */
int collective_hand_blocks(struct collective *c, int32_t root, const void *values, void *result, uint64_t n, uint64_t tag);
/* Waits until a call has ended. Returns 1 and `end`; 0: closed, and all have been returned. */
int collective_next(struct collective *c, struct collective_end *end);
void collective_counters_get(struct collective *c, struct collective_counters *counters);
/* Ends the thread; calls that are open end as closed. */
void collective_close(struct collective *c);
/* Frees it, when it is closed and has no waiter. */
void collective_free(struct collective *c);

#endif
