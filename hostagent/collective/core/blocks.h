/* Blocks that switches multicast over a job's tree: Broadcast and AllGather (docs/allreduce.md, "Blocks").
 *
 * Passive, as worker.h is: no clock, no socket, no allocation. One call is open at a time. Whoever runs it begins the same calls on
 * all ranks in the same order, lets the senders go when all ranks have begun, and ends the call when all ranks are
 * complete: a barrier of the job before and behind it. So nobody sends to a rank that is not ready, and who is asked for what was
 * lost still has it.
 */
#ifndef WEFT_COLLECTIVE_BLOCKS_H
#define WEFT_COLLECTIVE_BLOCKS_H

#include <stddef.h>
#include <stdint.h>

enum {
    BLOCKS_ALL = -1,           /* the root of a call in which every rank sends */
    BLOCKS_RANKS_MAX = 32768,  /* 15 bits on the wire */
    BLOCKS_ASKED_MAX = 4096,   /* blocks that one request names */
    BLOCKS_DOUBLINGS = 6,      /* of the time between requests, while nothing comes */
    BLOCKS_ASK = 6,            /* the kind of a request */
};

/* A destination: all ranks, by the tree. Others are ranks. */
#define BLOCKS_FLOOD UINT32_MAX
#define BLOCKS_NEVER INT64_MAX

enum blocks_status { BLOCKS_OK = 0, BLOCKS_BUSY = -1, BLOCKS_INVALID = -2 };

struct blocks_config {
    uint16_t job;
    uint32_t rank, ranks;
    uint32_t lanes, wire_lanes; /* int32 of a whole block that are looked at, and those that it is long */
    uint64_t most;              /* int32 of the largest call, those of all its senders together */
    int64_t slot_ps;            /* what a whole block takes on the slowest link of the tree */
    int64_t timeout_ns;         /* between requests, at least; at most 2^40 */
    uint64_t seed;              /* of that time's random part */
    uint32_t first;             /* number of the first call's first block */
};

struct blocks_calls {
    /* A datagram to a rank (peers' port) or BLOCKS_FLOOD (switches' port), and `tail` bytes of any value behind it. */
    void (*send)(void *owner, uint32_t to, const uint8_t *payload, uint32_t length, uint32_t tail);
    /* blocks_timer is to be called at `at_ns`, instead of what was said before; BLOCKS_NEVER: not at all. */
    void (*set_timer)(void *owner, int64_t at_ns);
    uint16_t (*epoch)(void *owner); /* the job's, whose low bits are the tree */
    /* The first `n` int32 of block `block` of this rank's; asked for again when the block is sent again. */
    void (*fill)(void *owner, uint32_t block, int32_t *lanes, uint32_t n);
    void (*take)(void *owner, uint32_t rank, uint32_t block, const int32_t *lanes, uint32_t n); /* once each */
    void (*complete)(void *owner); /* this rank has all blocks, and has sent its own */
};

struct blocks_stats {
    uint64_t sent;      /* blocks, for the first time */
    uint64_t flooded;   /* blocks sent again to all */
    uint64_t unicast;   /* blocks sent again to the one rank that asked */
    uint64_t taken;     /* blocks that were taken */
    uint64_t doubled;   /* blocks that were there already */
    uint64_t late;      /* datagrams of no call that is open */
    uint64_t asked;     /* requests sent */
    uint64_t answered;  /* requests that came */
    uint64_t turns;     /* trees that were left because a flooded repeat was asked for once more */
    uint64_t malformed;
};

struct blocks;

/* What is wrong with a configuration; NULL: nothing. */
const char *blocks_wrong(const struct blocks_config *config);
/* Bytes of memory that it needs, aligned as for any object. */
size_t blocks_bytes(const struct blocks_config *config);
struct blocks *blocks_make(void *memory, const struct blocks_config *config, const struct blocks_calls *calls, void *owner);

/* Begins a call in which `root`, or each rank (BLOCKS_ALL), sends `lanes` int32: from now on it takes blocks. */
int blocks_begin(struct blocks *blocks, int32_t root, uint64_t lanes, int64_t now_ns);
/* All ranks have begun: senders send, and what does not come is asked for. `complete` may be called from within. */
void blocks_go(struct blocks *blocks, int64_t now_ns);
/* Nobody needs anything of the call any more. */
void blocks_end(struct blocks *blocks);
void blocks_receive(struct blocks *blocks, const uint8_t *payload, uint32_t length, int64_t now_ns);
void blocks_timer(struct blocks *blocks, int64_t now_ns);

const struct blocks_stats *blocks_stats_of(const struct blocks *blocks);
int64_t blocks_heard(const struct blocks *blocks); /* when the last block was taken or sent for the first time, or the call let go */
uint32_t blocks_missing(const struct blocks *blocks); /* a rank of which something is missing; `ranks`: none */

#endif
