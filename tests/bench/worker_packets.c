/* A worker of an AllReduce and a stand-in for its switch in memory: `worker_packets lanes scaled packets` prints ns a packet, which
 * is one contribution filled and sent and one result taken. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "allreduce.h"
#include "floats.h"
#include "worker.h"

enum { SLOTS = 256, QUEUE = 4096 };

static float values[WORKER_LANES_MAX], sums[WORKER_LANES_MAX];
static uint8_t queue[QUEUE][WEFT_ALLREDUCE_BYTES + 4 * WORKER_LANES_MAX];
static uint32_t lengths[QUEUE], head, tail, lanes, scaled;
static uint8_t agreed;

static void send_one(void *owner, const uint8_t *payload, uint32_t length, uint32_t more)
{
    (void)owner, (void)more;
    memcpy(queue[tail % QUEUE], payload, length);
    lengths[tail++ % QUEUE] = length;
}

static void set_timer(void *owner, int64_t at)
{
    (void)owner, (void)at;
}

static void fill(void *owner, uint64_t tag, uint32_t chunk, int32_t *to)
{
    (void)owner, (void)tag, (void)chunk;
    if (scaled)
        floats_to_integers(to, values, lanes, agreed, 8);
    else
        memcpy(to, values, lanes * sizeof *to);
}

static void take(void *owner, uint64_t tag, uint32_t chunk, const int32_t *from)
{
    (void)owner, (void)tag, (void)chunk;
    if (scaled)
        floats_from_integers(sums, from, lanes, agreed, 8);
    else
        memcpy(sums, from, lanes * sizeof *from);
}

static uint8_t exponent(void *owner, uint64_t tag, uint32_t chunk)
{
    (void)owner, (void)tag, (void)chunk;
    return floats_exponent(values, lanes);
}

static void agree(void *owner, uint64_t tag, uint32_t chunk, uint8_t found)
{
    (void)owner, (void)tag, (void)chunk;
    agreed = found;
}

static void done(void *owner, uint64_t tag)
{
    (void)owner, (void)tag;
}

int main(int count, char **arguments)
{
    if (count < 4)
        return 2;
    lanes = (uint32_t)atoi(arguments[1]);
    scaled = (uint32_t)atoi(arguments[2]);
    const uint32_t packets = (uint32_t)atoi(arguments[3]);
    const struct worker_config config = {.job = 1, .slots = SLOTS, .lanes = lanes, .wire_lanes = lanes, .window = SLOTS,
                                         .patience = 2, .timeout_ns = 1000000};
    const struct worker_calls calls = {send_one, set_timer, fill, take, exponent, agree, done};
    if (worker_wrong(&config))
        return 2;
    for (uint32_t i = 0; i < lanes; i++)
        values[i] = (float)i / 7 - 3;
    struct worker *worker = worker_make(aligned_alloc(64, (worker_bytes(&config) + 63) / 64 * 64), &config, &calls, NULL);
    struct timespec begin, end;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &begin);
    worker_begin(worker, scaled ? WORKER_SCALED : WORKER_INTEGERS, packets, 0, 0);
    while (head != tail) {
        uint8_t *packet = queue[head % QUEUE];
        packet[0] = WEFT_ALLREDUCE_RESULT;
        worker_receive(worker, packet, lengths[head % QUEUE], head);
        head++;
    }
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &end);
    if (worker_open(worker))
        return 1;
    printf("%.1f\n", ((double)(end.tv_sec - begin.tv_sec) * 1e9 + (double)(end.tv_nsec - begin.tv_nsec)) / packets);
    return 0;
}
