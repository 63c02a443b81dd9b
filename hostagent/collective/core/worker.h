/* A worker of an AllReduce in the network (docs/allreduce.md): windows, rounds of slots, retransmissions, moves.
 *
 * Passive: no clock, no socket, no allocation. Whoever runs it gives it memory, the time with each call, and the calls below.
 * Time is in ns, of whatever clock, and never goes back.
 *
 * A call of the job is a number of chunks. They are numbered by one count over all calls, and all workers make the same
 * calls in the same order. Each slot goes on by itself, so that a loss holds up that slot alone; results of a call come in any
 * order. What a call's chunks hold is asked for when they are sent, once.
 *
 * A scaled call agrees on an exponent for each of its n chunks: they are sent `lead` = min(n, slots) chunks ahead, the first `lead`
 * without data. So packet j of such a call carries the exponent for chunk j, and packet lead + i the data of chunk i.
 */
#ifndef WEFT_COLLECTIVE_WORKER_H
#define WEFT_COLLECTIVE_WORKER_H

#include <stddef.h>
#include <stdint.h>

enum {
    WORKER_SLOTS_MAX = 32768,   /* 15 bits on the wire */
    WORKER_LANES_MAX = 2044,    /* with the header and UDP in 8 232 bytes */
    WORKER_CALLS = 1024,        /* that may be open at once */
    WORKER_BACKOFF = 6,         /* time-outs double as often */
    WORKER_RANKS_MAX = 64,      /* of a best-effort job: a bit each in a partial */
};

#define WORKER_NEVER INT64_MAX

enum worker_kind {
    WORKER_INTEGERS = 0, /* chunks of int32, no exponents */
    WORKER_SCALED = 1,   /* exponents are agreed on first */
    WORKER_BARRIER = 2,  /* one packet without data; chunks: 0 */
    WORKER_SHORT = 3,    /* integers, in packets of `lanes` and no more */
};

enum worker_status { WORKER_OK = 0, WORKER_FULL = -1, WORKER_INVALID = -2 };

struct worker_config {
    uint16_t job, epoch;        /* epoch: the job's first */
    uint32_t slots;             /* a power of two */
    uint32_t lanes, wire_lanes; /* int32 of a chunk, and those that its packet is long; what is behind `lanes` is not looked at */
    uint32_t window;            /* packets under way at most, 1 to `slots` */
    uint32_t adapt;             /* 1: marked results halve the window, a round without adds one */
    uint32_t patience;          /* time-outs without a result until it moves to the next tree; 0: it never begins a move */
    uint32_t best_effort;       /* 1: contributions are partials, which a server completes; `patience` is 0 */
    uint32_t rank;              /* of a best-effort job: below WORKER_RANKS_MAX */
    int64_t timeout_ns;         /* the first one; at most 2^40 */
    uint64_t seed;              /* of time-outs' random part */
};

/* `owner` runs the worker. `tag`: of the call, as it was begun. */
struct worker_calls {
    /* A datagram: `length` bytes that stay where they are until the slot's round after the next, then `tail` bytes of any value. */
    void (*send)(void *owner, const uint8_t *payload, uint32_t length, uint32_t tail);
    /* worker_timer is to be called at `at_ns`, instead of what was said before. */
    void (*set_timer)(void *owner, int64_t at_ns);
    void (*fill)(void *owner, uint64_t tag, uint32_t chunk, int32_t *lanes);
    void (*take)(void *owner, uint64_t tag, uint32_t chunk, const int32_t *lanes);
    /* Of scaled calls: the exponent that this rank needs (biased, 0: none), and the largest of all ranks. */
    uint8_t (*exponent)(void *owner, uint64_t tag, uint32_t chunk);
    void (*agree)(void *owner, uint64_t tag, uint32_t chunk, uint8_t exponent);
    void (*done)(void *owner, uint64_t tag); /* all its chunks were taken; new calls may be begun */
};

struct worker_stats {
    uint64_t sent;       /* datagrams, repeated ones and moves among them */
    uint64_t repeated;   /* after a time-out */
    uint64_t sent_again; /* because of a move */
    uint64_t overtaken;  /* of a best-effort job: repeated because later chunks had their results */
    uint64_t results;    /* that were taken */
    uint64_t late;       /* results that nothing waited for */
    uint64_t spurious;   /* of these, of chunks that time-outs had repeated: they came too soon, and are longer for a while */
    uint64_t malformed;  /* datagrams that are none of this job's */
    uint64_t moves;      /* that it began */
    uint64_t moved;      /* epochs that it went on to, its own moves among them */
    uint64_t overflowed; /* results whose sum had left int32 somewhere */
    uint64_t congested;  /* results that were marked */
    uint64_t cuts;       /* of the window */
};

struct worker;

/* What is wrong with a configuration; NULL: nothing. */
const char *worker_wrong(const struct worker_config *config);
/* Bytes of memory that a worker needs, aligned as for any object. */
size_t worker_bytes(const struct worker_config *config);
struct worker *worker_make(void *memory, const struct worker_config *config, const struct worker_calls *calls, void *owner);

/* Begins a call of `chunks` chunks. WORKER_FULL: too many are open; WORKER_INVALID: no chunks, or too many. */
int worker_begin(struct worker *worker, enum worker_kind kind, uint32_t chunks, uint64_t tag, int64_t now_ns);
void worker_receive(struct worker *worker, const uint8_t *payload, uint32_t length, int64_t now_ns);
void worker_timer(struct worker *worker, int64_t now_ns);

const struct worker_stats *worker_stats_of(const struct worker *worker);
uint32_t worker_window(const struct worker *worker);
uint32_t worker_epoch(const struct worker *worker);
uint32_t worker_open(const struct worker *worker); /* calls that are not done */
int64_t worker_heard(const struct worker *worker); /* when the last result came, or what waits was begun */

#endif
