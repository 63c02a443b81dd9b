/* Owns the blocks of one call at a time, and the datagrams that hosts send each other for them. */
#include "multicast.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "allreduce.h"
#include "driver.h"

enum { ON_WIRE = 66 }; /* Ethernet with preamble, FCS and gap, IPv4 and UDP */

static const uint64_t PS_PER_S = 1000000000000u;

static void send_block(void *owner, uint32_t to, const uint8_t *payload, uint32_t length, uint32_t tail)
{
    struct multicast *m = owner;
    struct worker_socket *socket = to == BLOCKS_FLOOD ? m->switches : &m->peers;
    socket_put(socket, to == BLOCKS_FLOOD ? 0 : m->addresses[to], payload, length, tail);
    socket_flush(socket); /* the next block is written where this one is */
}

static void set_timer(void *owner, int64_t at)
{
    ((struct multicast *)owner)->armed = at;
}

static uint16_t epoch(void *owner)
{
    const struct multicast *m = owner;
    return m->calls.epoch(m->owner);
}

static void fill(void *owner, uint32_t block, int32_t *lanes, uint32_t n)
{
    const struct multicast *m = owner;
    memcpy(lanes, m->values + (uint64_t)block * m->config.lanes, n * sizeof *lanes);
}

static void take(void *owner, uint32_t rank, uint32_t block, const int32_t *lanes, uint32_t n)
{
    const struct multicast *m = owner;
    int32_t *row = m->result + (m->root == BLOCKS_ALL ? rank * m->n : 0);
    memcpy(row + (uint64_t)block * m->config.lanes, lanes, n * sizeof *lanes);
}

static void complete(void *owner)
{
    const struct multicast *m = owner;
    m->calls.complete(m->owner);
}

static const struct blocks_calls calls = {
    .send = send_block,
    .set_timer = set_timer,
    .epoch = epoch,
    .fill = fill,
    .take = take,
    .complete = complete,
};

int multicast_open(struct multicast *m, const struct multicast_config *config, const struct multicast_calls *of_owner, void *owner,
                   struct worker_socket *switches, char *why)
{
    *m = (struct multicast){.config = *config, .calls = *of_owner, .owner = owner, .switches = switches, .next = config->first,
                            .armed = BLOCKS_NEVER, .peers = {.fd = -1}};
    m->addresses = calloc(config->ranks, sizeof *m->addresses);
    if (!m->addresses) {
        snprintf(why, COLLECTIVE_WHY, "no memory for the addresses of %u ranks", config->ranks);
        return -1;
    }
    return socket_open(&m->peers, config->address, WEFT_ALLREDUCE_PEER_PORT, config->address, config->tos,
                       WEFT_ALLREDUCE_BYTES + 4 * config->lanes, why);
}

void multicast_close(struct multicast *m)
{
    multicast_end(m);
    socket_close(&m->peers);
    free(m->addresses);
    m->addresses = NULL;
}

int multicast_begin(struct multicast *m, int32_t root, const int32_t *values, int32_t *result, uint64_t n, int64_t now)
{
    const struct multicast_config *c = &m->config;
    const uint64_t senders = root == BLOCKS_ALL ? c->ranks : 1;
    const struct blocks_config config = {
        .job = c->job,
        .rank = c->rank,
        .ranks = c->ranks,
        .lanes = c->lanes,
        .wire_lanes = c->lanes,
        .most = n * senders,
        .slot_ps = (int64_t)(8 * (ON_WIRE + WEFT_ALLREDUCE_BYTES + 4 * (uint64_t)c->lanes) * PS_PER_S / c->rate_bps) + 1,
        .timeout_ns = c->timeout_ns,
        .seed = c->seed,
        .first = m->next,
    };
    if (blocks_wrong(&config))
        return -1;
    void *memory = malloc(blocks_bytes(&config));
    if (!memory)
        return -1;
    m->blocks = blocks_make(memory, &config, &calls, m);
    m->root = root;
    m->values = values;
    m->result = result;
    m->n = n;
    m->next += (uint32_t)((n + c->lanes - 1) / c->lanes);
    if (root == BLOCKS_ALL || (uint32_t)root == c->rank)
        memcpy(result + (root == BLOCKS_ALL ? c->rank * n : 0), values, n * sizeof *values);
    return blocks_begin(m->blocks, root, n, now);
}

void multicast_go(struct multicast *m, int64_t now)
{
    blocks_go(m->blocks, now);
}

static void add(struct blocks_stats *to, const struct blocks_stats *more)
{
    to->sent += more->sent;
    to->flooded += more->flooded;
    to->unicast += more->unicast;
    to->taken += more->taken;
    to->doubled += more->doubled;
    to->late += more->late;
    to->asked += more->asked;
    to->answered += more->answered;
    to->turns += more->turns;
    to->malformed += more->malformed;
}

struct blocks_stats multicast_stats(const struct multicast *m)
{
    struct blocks_stats found = m->stats;
    if (m->blocks)
        add(&found, blocks_stats_of(m->blocks));
    return found;
}

void multicast_end(struct multicast *m)
{
    if (!m->blocks)
        return;
    add(&m->stats, blocks_stats_of(m->blocks));
    free(m->blocks);
    m->blocks = NULL;
    m->armed = BLOCKS_NEVER;
}

void multicast_receive(struct multicast *m, const uint8_t *payload, uint32_t length, int64_t now)
{
    if (m->blocks)
        blocks_receive(m->blocks, payload, length, now);
    else
        m->stats.late++;
}

void multicast_take(struct multicast *m, int64_t now)
{
    const uint32_t n = socket_take(&m->peers);
    for (uint32_t i = 0; i < n; i++)
        multicast_receive(m, m->peers.in.parts[i][0].iov_base, m->peers.in.headers[i].msg_len, now);
}

void multicast_timer(struct multicast *m, int64_t now)
{
    if (m->blocks && m->armed <= now)
        blocks_timer(m->blocks, now);
}

void multicast_fill_addresses(const struct multicast *m, uint32_t chunk, int32_t *lanes, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        lanes[i] = (uint64_t)chunk * n + i == m->config.rank ? (int32_t)m->config.address : 0;
}

void multicast_take_addresses(struct multicast *m, uint32_t chunk, const int32_t *lanes, uint32_t n)
{
    for (uint32_t i = 0; i < n && (uint64_t)chunk * n + i < m->config.ranks; i++)
        m->addresses[(uint64_t)chunk * n + i] = (uint32_t)lanes[i];
}
