/* A best-effort job's parameter server (docs/allreduce.md): completes what switches had no cell for.
 *
 * Passive as the worker is: no clock, no socket, no allocation. Time is in ns, of whatever clock, and never goes back.
 *
 * It knows two chunks of each of the workers' slots. Partials are added whose workers share none with what is there already;
 * a complete chunk's sum goes to all workers by the job's tree, and again where a worker still repeats its part.
 */
#ifndef WEFT_COLLECTIVE_SERVER_H
#define WEFT_COLLECTIVE_SERVER_H

#include <stddef.h>
#include <stdint.h>

struct server_config {
    uint16_t job;
    uint32_t ranks;             /* 1 to 64 */
    uint32_t slots;             /* as the workers have it: a power of two, to 32768 */
    uint32_t lanes, wire_lanes; /* as the workers have it */
    int64_t quiet_ns;           /* a result goes out again at most once in this time */
};

struct server_calls {
    /* A datagram: `length` bytes that stay where they are until the next call, then `tail` bytes of any value. */
    void (*send)(void *owner, const uint8_t *payload, uint32_t length, uint32_t tail);
};

struct server_stats {
    uint64_t taken;       /* partials that were added */
    uint64_t whole;       /* of these, chunks that switches had summed up alone */
    uint64_t doubled;     /* of workers that were there already */
    uint64_t overlapping; /* of workers of which some were there: not added, and they repeat theirs one by one */
    uint64_t late;        /* of chunks that all workers are past, or of an older epoch */
    uint64_t malformed;   /* datagrams that are no partials of this job */
    uint64_t results;     /* chunks that were completed */
    uint64_t answered;    /* results that went out again */
    uint64_t overflowed;  /* additions that left int32 */
    uint64_t congested;   /* partials that were marked */
};

struct server;

/* What is wrong with a configuration; NULL: nothing. */
const char *server_wrong(const struct server_config *config);
/* Bytes of memory that a server needs, aligned as for any object. */
size_t server_bytes(const struct server_config *config);
struct server *server_make(void *memory, const struct server_config *config, const struct server_calls *calls, void *owner);
/* `marked`: its packet had ECN CE, which its result is to report. */
void server_receive(struct server *server, const uint8_t *payload, uint32_t length, int marked, int64_t now_ns);
const struct server_stats *server_stats_of(const struct server *server);

#endif
