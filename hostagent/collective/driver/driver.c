/* Owns the thread that runs a worker and its blocks, and the clock. */
#include "driver.h"

#include <poll.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "allreduce.h"
#include "collective.h"
#include "floats.h"

static const int64_t NS_PER_S = 1000000000;

static int64_t clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * NS_PER_S + now.tv_nsec;
}

/* --- what the worker asks for --------------------------------------------------------------------------- */

/* A chunk's place in the call's arrays: the first value, and how many there are. */
static uint32_t part(const struct collective *c, const struct handed *call, uint32_t chunk, uint64_t *at)
{
    const uint32_t lanes = c->config.worker.lanes;
    *at = (uint64_t)chunk * lanes;
    return call->n - *at < lanes ? (uint32_t)(call->n - *at) : lanes;
}

static struct handed *call_of(uint64_t tag)
{
    return (struct handed *)(uintptr_t)tag;
}

static void send_one(void *owner, const uint8_t *payload, uint32_t length, uint32_t tail)
{
    struct collective *c = owner;
    socket_put(&c->socket, 0, payload, length, tail);
}

static void set_timer(void *owner, int64_t at)
{
    ((struct collective *)owner)->armed = at;
}

static void fill(void *owner, uint64_t tag, uint32_t chunk, int32_t *lanes)
{
    const struct collective *c = owner;
    const struct handed *call = call_of(tag);
    uint64_t at;
    if (call->phase) {
        multicast_fill_addresses(&c->multicast, chunk, lanes, c->config.worker.lanes);
        return;
    }
    const uint32_t n = part(c, call, chunk, &at);
    if (call->kind == WORKER_SCALED)
        floats_to_integers(lanes, (const float *)call->values + at, n, call->exponents[chunk], c->config.ranks);
    else
        memcpy(lanes, (const int32_t *)call->values + at, n * sizeof *lanes);
    memset(lanes + n, 0, (c->config.worker.lanes - n) * sizeof *lanes);
}

static void take(void *owner, uint64_t tag, uint32_t chunk, const int32_t *lanes)
{
    struct collective *c = owner;
    const struct handed *call = call_of(tag);
    uint64_t at;
    if (call->phase) {
        multicast_take_addresses(&c->multicast, chunk, lanes, c->config.worker.lanes);
        return;
    }
    const uint32_t n = part(c, call, chunk, &at);
    if (call->kind == WORKER_SCALED)
        floats_from_integers((float *)call->sums + at, lanes, n, call->exponents[chunk], c->config.ranks);
    else
        memcpy((int32_t *)call->sums + at, lanes, n * sizeof *lanes);
}

static uint8_t exponent(void *owner, uint64_t tag, uint32_t chunk)
{
    const struct handed *call = call_of(tag);
    uint64_t at;
    const uint32_t n = part(owner, call, chunk, &at);
    return floats_exponent((const float *)call->values + at, n);
}

static void agree(void *owner, uint64_t tag, uint32_t chunk, uint8_t exponent)
{
    (void)owner;
    call_of(tag)->exponents[chunk] = exponent;
}

static void done(void *owner, uint64_t tag)
{
    struct collective *c = owner;
    struct handed *call = call_of(tag);
    if (call->phase == PHASE_START) {
        c->multicast.addressed = 1;
        call->phase = PHASE_BLOCKS;
        multicast_go(&c->multicast, c->now);
        return;
    }
    if (call->phase == PHASE_END) {
        multicast_end(&c->multicast);
        c->blocks = NULL;
    }
    call_end(c, &c->open, call, COLLECTIVE_DONE);
}

/* --- what blocks ask for -------------------------------------------------------------------------------- */

static uint16_t epoch_now(void *owner)
{
    const struct collective *c = owner;
    return (uint16_t)worker_epoch(c->worker);
}

static void blocks_complete(void *owner)
{
    const struct collective *c = owner;
    c->blocks->phase = PHASE_END;
    worker_begin(c->worker, WORKER_BARRIER, 0, (uint64_t)(uintptr_t)c->blocks, c->now);
}

const struct multicast_calls collective_multicast_calls = {.epoch = epoch_now, .complete = blocks_complete};

const struct worker_calls collective_worker_calls = {
    .send = send_one,
    .set_timer = set_timer,
    .fill = fill,
    .take = take,
    .exponent = exponent,
    .agree = agree,
    .done = done,
};

/* --- the thread ------------------------------------------------------------------------------------------ */

/* The first call of a job has a sum in the place of its first barrier. There is room for both: none is begun before the end. */
static void begin_blocks(struct collective *c, struct handed *call, int64_t now)
{
    const struct collective_config *config = &c->config;
    if (multicast_begin(&c->multicast, call->root, call->values, call->sums, call->n, now)) {
        c->given_up = 1; /* no memory: the others wait in vain, as for a rank that has gone */
        return;
    }
    c->blocks = call;
    call->phase = PHASE_START;
    const uint32_t chunks = (config->ranks + config->worker.lanes - 1) / config->worker.lanes;
    const int addressed = c->multicast.addressed;
    worker_begin(c->worker, addressed ? WORKER_BARRIER : WORKER_SHORT, addressed ? 0 : chunks, (uint64_t)(uintptr_t)call, now);
}

static void begin_waiting(struct collective *c, int64_t now)
{
    while (c->waiting.first && !c->given_up && !c->blocks) {
        struct handed *call = c->waiting.first;
        if (call->phase && worker_open(c->worker) > WORKER_CALLS - 2)
            return;
        /* It is among the open ones before the worker may say that it is done. */
        call_take_out(&c->waiting, call);
        call_put(&c->open, call);
        if (call->phase) {
            begin_blocks(c, call, now);
            return;
        }
        if (worker_begin(c->worker, call->kind, call->chunks, (uint64_t)(uintptr_t)call, now) == WORKER_FULL) {
            call_take_out(&c->open, call);
            call->before = NULL; /* it goes back to the front */
            call->next = c->waiting.first;
            if (call->next)
                call->next->before = call;
            else
                c->waiting.last = call;
            c->waiting.first = call;
            return;
        }
    }
}

static void end_all(struct collective *c, enum collective_end_status status)
{
    multicast_end(&c->multicast);
    c->blocks = NULL;
    while (c->open.first)
        call_end(c, &c->open, c->open.first, status);
    while (c->waiting.first)
        call_end(c, &c->waiting, c->waiting.first, status);
}

/* When something of an open call came last. */
static int64_t heard(const struct collective *c)
{
    const int64_t of_worker = worker_heard(c->worker);
    const int64_t of_blocks = c->blocks ? blocks_heard(c->multicast.blocks) : of_worker;
    return of_worker > of_blocks ? of_worker : of_blocks;
}

static int64_t wake_at(const struct collective *c)
{
    if (!c->open.first || c->given_up)
        return WORKER_NEVER;
    const int64_t give_up = heard(c) + c->config.give_up_ns;
    const int64_t armed = c->armed < c->multicast.armed ? c->armed : c->multicast.armed;
    return armed < give_up ? armed : give_up;
}

static void wait_for_something(struct collective *c, int64_t until)
{
    /* A descriptor of -1, where there are no blocks, is left out. */
    struct pollfd ready[] = {{c->socket.fd, POLLIN, 0}, {c->wake, POLLIN, 0}, {c->multicast.peers.fd, POLLIN, 0}};
    struct timespec patience, *limit = NULL;
    if (until != WORKER_NEVER) {
        const int64_t left = until - clock_ns();
        patience = (struct timespec){left > 0 ? left / NS_PER_S : 0, left > 0 ? left % NS_PER_S : 0};
        limit = &patience;
    }
    ppoll(ready, sizeof ready / sizeof *ready, limit, NULL);
    uint64_t times;
    if (ready[1].revents & POLLIN && read(c->wake, &times, sizeof times) < 0)
        return; /* another wake-up is on its way */
}

static void receive(struct collective *c, const uint8_t *payload, uint32_t length, int64_t now)
{
    if (c->config.block_lanes && length && payload[0] == WEFT_ALLREDUCE_BLOCK)
        multicast_receive(&c->multicast, payload, length, now);
    else
        worker_receive(c->worker, payload, length, now);
}

void *collective_run(void *argument)
{
    struct collective *c = argument;
    pthread_mutex_lock(&c->mutex);
    while (!c->closing) {
        const int64_t until = wake_at(c);
        pthread_mutex_unlock(&c->mutex);
        wait_for_something(c, until);
        const uint32_t n = socket_take(&c->socket);
        const int64_t now = clock_ns();
        pthread_mutex_lock(&c->mutex);
        c->received += n;
        c->now = now;
        if (!c->given_up) {
            for (uint32_t i = 0; i < n; i++)
                receive(c, c->socket.in.parts[i][0].iov_base, c->socket.in.headers[i].msg_len, now);
            if (c->config.block_lanes)
                multicast_take(&c->multicast, now);
            begin_waiting(c, now);
            multicast_timer(&c->multicast, now);
            if (c->armed <= now) {
                c->armed = WORKER_NEVER;
                worker_timer(c->worker, now);
            }
            if (c->open.first && now - heard(c) >= c->config.give_up_ns)
                c->given_up = 1;
        }
        if (c->given_up)
            end_all(c, COLLECTIVE_GIVEN_UP);
        socket_flush(&c->socket);
    }
    end_all(c, COLLECTIVE_CLOSED);
    c->closed = 1;
    pthread_cond_broadcast(&c->ended_one);
    pthread_mutex_unlock(&c->mutex);
    return NULL;
}
