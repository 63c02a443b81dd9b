/* Owns the thread that runs a worker, and the calls on their way to and from it. */
#include "driver.h"

#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "allreduce.h"
#include "floats.h"
#include "socket.h"

enum { ECT = 2 };

static const int64_t NS_PER_S = 1000000000;

struct handed {
    struct handed *next, *before; /* in one of the lists */
    const void *values;
    void *sums;
    uint64_t n, tag;
    uint32_t chunks, status;
    enum worker_kind kind;
    uint8_t exponents[]; /* of a scaled call's chunks */
};

struct list {
    struct handed *first, *last;
};

struct collective {
    struct collective_config config;
    struct worker *worker;
    struct worker_socket socket;
    int64_t armed;
    uint64_t received;
    int wake;
    pthread_t thread;
    pthread_mutex_t mutex; /* of what follows; the thread holds it also while it handles what has come */
    pthread_cond_t ended_one;
    struct list waiting, open, ended;
    uint8_t closing, closed, given_up;
};

static int64_t clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * NS_PER_S + now.tv_nsec;
}

static void put(struct list *list, struct handed *call)
{
    call->next = NULL;
    call->before = list->last;
    if (list->last)
        list->last->next = call;
    else
        list->first = call;
    list->last = call;
}

static void take_out(struct list *list, struct handed *call)
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
    socket_put(&c->socket, payload, length, tail);
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
    const uint32_t n = part(c, call, chunk, &at);
    if (call->kind == WORKER_SCALED)
        floats_to_integers(lanes, (const float *)call->values + at, n, call->exponents[chunk], c->config.ranks);
    else
        memcpy(lanes, (const int32_t *)call->values + at, n * sizeof *lanes);
    memset(lanes + n, 0, (c->config.worker.lanes - n) * sizeof *lanes);
}

static void take(void *owner, uint64_t tag, uint32_t chunk, const int32_t *lanes)
{
    const struct collective *c = owner;
    const struct handed *call = call_of(tag);
    uint64_t at;
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

static void end(struct collective *c, struct list *from, struct handed *call, enum collective_end_status status)
{
    take_out(from, call);
    call->status = status;
    put(&c->ended, call);
    pthread_cond_signal(&c->ended_one);
}

static void done(void *owner, uint64_t tag)
{
    struct collective *c = owner;
    end(c, &c->open, call_of(tag), COLLECTIVE_DONE);
}

static const struct worker_calls calls = {
    .send = send_one,
    .set_timer = set_timer,
    .fill = fill,
    .take = take,
    .exponent = exponent,
    .agree = agree,
    .done = done,
};

/* --- the thread ------------------------------------------------------------------------------------------ */

static void begin_waiting(struct collective *c, int64_t now)
{
    while (c->waiting.first && !c->given_up) {
        struct handed *call = c->waiting.first;
        /* It is among the open ones before the worker may say that it is done. */
        take_out(&c->waiting, call);
        put(&c->open, call);
        if (worker_begin(c->worker, call->kind, call->chunks, (uint64_t)(uintptr_t)call, now) == WORKER_FULL) {
            take_out(&c->open, call);
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
    while (c->open.first)
        end(c, &c->open, c->open.first, status);
    while (c->waiting.first)
        end(c, &c->waiting, c->waiting.first, status);
}

static int64_t wake_at(const struct collective *c)
{
    if (!c->open.first || c->given_up)
        return WORKER_NEVER;
    const int64_t give_up = worker_heard(c->worker) + c->config.give_up_ns;
    return c->armed < give_up ? c->armed : give_up;
}

static void wait_for_something(struct collective *c, int64_t until)
{
    struct pollfd ready[] = {{c->socket.fd, POLLIN, 0}, {c->wake, POLLIN, 0}};
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

static void *run(void *argument)
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
        if (!c->given_up) {
            for (uint32_t i = 0; i < n; i++)
                worker_receive(c->worker, c->socket.in.parts[i][0].iov_base, c->socket.in.headers[i].msg_len, now);
            begin_waiting(c, now);
            if (c->armed <= now) {
                c->armed = WORKER_NEVER;
                worker_timer(c->worker, now);
            }
            if (c->open.first && now - worker_heard(c->worker) >= c->config.give_up_ns)
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

/* --- for who hands over calls -------------------------------------------------------------------------------- */

static void wake(struct collective *c)
{
    const uint64_t once = 1;
    if (write(c->wake, &once, sizeof once) < 0)
        return; /* the counter is full: it is awake */
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
    if (socket_open(&c->socket, config->address, config->gateway, tos, WEFT_ALLREDUCE_BYTES + 4 * config->worker.wire_lanes, why)) {
        free(memory);
        free(c);
        return NULL;
    }
    c->worker = worker_make(memory, &config->worker, &calls, c);
    pthread_mutex_init(&c->mutex, NULL);
    pthread_cond_init(&c->ended_one, NULL);
    c->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (c->wake < 0 || pthread_create(&c->thread, NULL, run, c)) {
        snprintf(why, COLLECTIVE_WHY, "a thread for the worker can't be had");
        c->closed = 1;
        collective_free(c);
        return NULL;
    }
    return c;
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
    pthread_mutex_lock(&c->mutex);
    const int refused = c->closing;
    if (!refused && c->given_up) {
        put(&c->open, call);
        end(c, &c->open, call, COLLECTIVE_GIVEN_UP);
    } else if (!refused) {
        put(&c->waiting, call);
    }
    pthread_mutex_unlock(&c->mutex);
    if (refused) {
        free(call);
        return -1;
    }
    wake(c);
    return 0;
}

int collective_next(struct collective *c, struct collective_end *ended)
{
    pthread_mutex_lock(&c->mutex);
    while (!c->ended.first && !c->closed)
        pthread_cond_wait(&c->ended_one, &c->mutex);
    struct handed *call = c->ended.first;
    if (call) {
        take_out(&c->ended, call);
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
                                             .epoch = worker_epoch(c->worker)};
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
    if (c->wake >= 0)
        close(c->wake);
    pthread_cond_destroy(&c->ended_one);
    pthread_mutex_destroy(&c->mutex);
    free(c->worker);
    free(c);
}
