/* Owns the calls that are handed over, until they are returned. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "allreduce.h"
#include "collective.h"
#include "driver.h"

enum {
    ECT = 2,
    FIRST_SHIFT = 16, /* blocks of a job that is begun again, at another epoch, have other numbers */
};

void call_put(struct list *list, struct handed *call)
{
    call->next = NULL;
    call->before = list->last;
    if (list->last)
        list->last->next = call;
    else
        list->first = call;
    list->last = call;
}

void call_take_out(struct list *list, struct handed *call)
{
    if (call->before)
        call->before->next = call->next;
    else
        list->first = call->next;
    if (call->next)
        call->next->before = call->before;
    else
        list->last = call->before;
}

void call_end(struct collective *c, struct list *from, struct handed *call, enum collective_end_status status)
{
    call_take_out(from, call);
    call->status = status;
    call_put(&c->ended, call);
    pthread_cond_signal(&c->ended_one);
}

/* --- for who hands over calls -------------------------------------------------------------------------------- */

static void wake(struct collective *c)
{
    const uint64_t once = 1;
    if (write(c->wake, &once, sizeof once) < 0)
        return; /* the counter is full: it is awake */
}

static int open_sockets(struct collective *c, uint32_t tos, char *why)
{
    const struct collective_config *config = &c->config;
    const uint32_t lanes = config->block_lanes > config->worker.wire_lanes ? config->block_lanes : config->worker.wire_lanes;
    c->multicast.peers.fd = -1;
    c->multicast.armed = BLOCKS_NEVER;
    if (socket_open(&c->socket, config->address, WEFT_ALLREDUCE_PORT, config->gateway, tos, WEFT_ALLREDUCE_BYTES + 4 * lanes, why))
        return -1;
    if (!config->block_lanes)
        return 0;
    const struct multicast_config blocks = {
        .job = config->worker.job,
        .rank = config->rank,
        .ranks = config->ranks,
        .lanes = config->block_lanes,
        .address = config->address,
        .tos = tos,
        .rate_bps = config->block_rate_bps,
        .first = (uint32_t)config->worker.epoch << FIRST_SHIFT,
        .timeout_ns = config->worker.timeout_ns,
        .seed = config->worker.seed ^ 1,
    };
    if (!multicast_open(&c->multicast, &blocks, &collective_multicast_calls, c, &c->socket, why))
        return 0;
    socket_close(&c->socket);
    multicast_close(&c->multicast);
    return -1;
}

struct collective *collective_open(const struct collective_config *config, char *why)
{
    const char *wrong = worker_wrong(&config->worker);
    if (wrong) {
        snprintf(why, COLLECTIVE_WHY, "%s", wrong);
        return NULL;
    }
    struct collective *c = calloc(1, sizeof *c);
    void *memory = aligned_alloc(64, (worker_bytes(&config->worker) + 63) / 64 * 64);
    if (!c || !memory) {
        snprintf(why, COLLECTIVE_WHY, "no memory for a worker of %u slots", config->worker.slots);
        free(c);
        free(memory);
        return NULL;
    }
    c->config = *config;
    c->armed = WORKER_NEVER;
    const uint32_t tos = config->dscp << 2 | (config->worker.adapt ? ECT : 0);
    if (open_sockets(c, tos, why)) {
        free(memory);
        free(c);
        return NULL;
    }
    c->worker = worker_make(memory, &config->worker, &collective_worker_calls, c);
    pthread_mutex_init(&c->mutex, NULL);
    pthread_cond_init(&c->ended_one, NULL);
    c->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (c->wake < 0 || pthread_create(&c->thread, NULL, collective_run, c)) {
        snprintf(why, COLLECTIVE_WHY, "a thread for the worker can't be had");
        c->closed = 1;
        collective_free(c);
        return NULL;
    }
    return c;
}

static int hand(struct collective *c, struct handed *call)
{
    pthread_mutex_lock(&c->mutex);
    const int refused = c->closing;
    if (!refused && c->given_up) {
        call_put(&c->open, call);
        call_end(c, &c->open, call, COLLECTIVE_GIVEN_UP);
    } else if (!refused) {
        call_put(&c->waiting, call);
    }
    pthread_mutex_unlock(&c->mutex);
    if (refused) {
        free(call);
        return -1;
    }
    wake(c);
    return 0;
}

int collective_hand(struct collective *c, enum worker_kind kind, const void *values, void *sums, uint64_t n, uint64_t tag)
{
    const uint32_t lanes = c->config.worker.lanes;
    const uint64_t chunks = (n + lanes - 1) / lanes;
    if (chunks > INT32_MAX || (kind != WORKER_BARRIER && !chunks))
        return -1;
    struct handed *call = malloc(sizeof *call + (kind == WORKER_SCALED ? chunks : 0));
    if (!call)
        return -1;
    *call = (struct handed){.values = values, .sums = sums, .n = n, .tag = tag, .chunks = (uint32_t)chunks, .kind = kind};
    return hand(c, call);
}

int collective_hand_blocks(struct collective *c, int32_t root, const void *values, void *result, uint64_t n, uint64_t tag)
{
    const uint64_t senders = root == BLOCKS_ALL ? c->config.ranks : 1;
    if (!c->config.block_lanes || !n || n > (uint64_t)INT32_MAX / senders || root < BLOCKS_ALL || root >= (int64_t)c->config.ranks)
        return -1;
    struct handed *call = malloc(sizeof *call);
    if (!call)
        return -1;
    *call = (struct handed){.values = values, .sums = result, .n = n, .tag = tag, .phase = PHASE_START, .root = root};
    return hand(c, call);
}

int collective_next(struct collective *c, struct collective_end *ended)
{
    pthread_mutex_lock(&c->mutex);
    while (!c->ended.first && !c->closed)
        pthread_cond_wait(&c->ended_one, &c->mutex);
    struct handed *call = c->ended.first;
    if (call) {
        call_take_out(&c->ended, call);
        *ended = (struct collective_end){.tag = call->tag, .status = call->status};
    }
    pthread_mutex_unlock(&c->mutex);
    free(call);
    return call ? 1 : 0;
}

void collective_counters_get(struct collective *c, struct collective_counters *counters)
{
    pthread_mutex_lock(&c->mutex);
    *counters = (struct collective_counters){.worker = *worker_stats_of(c->worker), .received = c->received,
                                             .unsent = c->socket.unsent, .window = worker_window(c->worker),
                                             .epoch = worker_epoch(c->worker), .blocks = multicast_stats(&c->multicast)};
    pthread_mutex_unlock(&c->mutex);
}

void collective_close(struct collective *c)
{
    pthread_mutex_lock(&c->mutex);
    const int first = !c->closing;
    c->closing = 1;
    pthread_mutex_unlock(&c->mutex);
    if (!first)
        return;
    wake(c);
    pthread_join(c->thread, NULL);
}

void collective_free(struct collective *c)
{
    struct collective_end ended;
    while (collective_next(c, &ended))
        ;
    socket_close(&c->socket);
    multicast_close(&c->multicast);
    if (c->wake >= 0)
        close(c->wake);
    pthread_cond_destroy(&c->ended_one);
    pthread_mutex_destroy(&c->mutex);
    free(c->worker);
    free(c);
}
