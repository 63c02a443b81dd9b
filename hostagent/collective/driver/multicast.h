/* A rank's calls of blocks in real time: owns the socket of datagrams between hosts, all ranks' addresses, and the call that is open.
 *
 * Not a thread of its own: the worker's runs it, and makes the barriers before and behind each call.
 */
#ifndef WEFT_COLLECTIVE_MULTICAST_H
#define WEFT_COLLECTIVE_MULTICAST_H

#include "blocks.h"
#include "socket.h"

struct multicast_config {
    uint16_t job;
    uint32_t rank, ranks, lanes; /* int32 of a block */
    uint32_t address, tos;
    uint64_t rate_bps;           /* of the slowest link of the job's trees */
    uint32_t first;              /* number of the first block */
    int64_t timeout_ns;
    uint64_t seed;
};

struct multicast_calls {
    uint16_t (*epoch)(void *owner);
    void (*complete)(void *owner); /* this rank needs nothing more of the call */
};

struct multicast {
    struct multicast_config config;
    struct multicast_calls calls;
    void *owner;
    struct worker_socket *switches; /* what is flooded leaves by it */
    struct worker_socket peers;
    struct blocks *blocks;          /* of the call that is open; NULL: none is */
    struct blocks_stats stats;      /* of those before it */
    uint32_t *addresses;            /* by rank; in the host's order */
    uint32_t next;                  /* number of the next call's first block */
    int64_t armed;
    const int32_t *values;
    int32_t *result;
    uint64_t n;
    int32_t root;
    uint8_t addressed;              /* `addresses` are known */
};

/* Returns 0, or -1 with the reason. */
int multicast_open(struct multicast *m, const struct multicast_config *config, const struct multicast_calls *calls, void *owner,
                   struct worker_socket *switches, char *why);
void multicast_close(struct multicast *m);

/* Takes blocks from now on: `n` int32 of rank `root`, or of each (BLOCKS_ALL). `result` has room for all, and this rank's own
 * stand there. 0, or -1: no memory. */
int multicast_begin(struct multicast *m, int32_t root, const int32_t *values, int32_t *result, uint64_t n, int64_t now);
void multicast_go(struct multicast *m, int64_t now); /* all ranks have begun */
void multicast_end(struct multicast *m);
void multicast_receive(struct multicast *m, const uint8_t *payload, uint32_t length, int64_t now);
void multicast_take(struct multicast *m, int64_t now); /* what has come from other hosts */
void multicast_timer(struct multicast *m, int64_t now);
struct blocks_stats multicast_stats(const struct multicast *m);

/* The sum by which a job's first call begins: lane r of all chunks together is rank r's address. */
void multicast_fill_addresses(const struct multicast *m, uint32_t chunk, int32_t *lanes, uint32_t n);
void multicast_take_addresses(struct multicast *m, uint32_t chunk, const int32_t *lanes, uint32_t n);

#endif
