/* A worker in real time as its two files see it: calls.c takes calls and returns them, driver.c carries them out. */
#ifndef WEFT_COLLECTIVE_COLLECTIVE_H
#define WEFT_COLLECTIVE_COLLECTIVE_H

#include <pthread.h>

#include "driver.h"
#include "multicast.h"
#include "socket.h"

/* A call of blocks is a barrier, blocks, and a barrier; all others are the worker's from the beginning. */
enum phase { PHASE_NONE, PHASE_START, PHASE_BLOCKS, PHASE_END };

struct handed {
    struct handed *next, *before; /* in one of the lists */
    const void *values;
    void *sums;
    uint64_t n, tag;
    uint32_t chunks, status;
    enum worker_kind kind;
    enum phase phase;
    int32_t root;
    uint8_t exponents[]; /* of a scaled call's chunks */
};

struct list {
    struct handed *first, *last;
};

struct collective {
    struct collective_config config;
    struct worker *worker;
    struct worker_socket socket;
    int64_t armed, now; /* of what is handled */
    uint64_t received;
    int wake;
    pthread_t thread;
    pthread_mutex_t mutex; /* of what follows; the thread holds it also while it handles what has come */
    pthread_cond_t ended_one;
    struct list waiting, open, ended;
    struct multicast multicast;
    struct handed *blocks; /* the open call of blocks: others wait behind it; NULL: there is none */
    uint8_t closing, closed, given_up;
};

void call_put(struct list *list, struct handed *call);
void call_take_out(struct list *list, struct handed *call);
/* The call has ended: its waiters are notified. */
void call_end(struct collective *c, struct list *from, struct handed *call, enum collective_end_status status);

extern const struct worker_calls collective_worker_calls;
extern const struct multicast_calls collective_multicast_calls;
void *collective_run(void *collective); /* the thread */

#endif
