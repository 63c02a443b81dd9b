/* Owns a best-effort job's rounds at its server: which workers a sum has, and when its result went out. */
#include "server.h"

#include <string.h>

#include "allreduce.h"
#include "bytes.h"
#include "worker.h"

enum {
    OF_SLOT = 2, /* rounds: workers may be a round apart in a slot */
    FLAGS = WEFT_ALLREDUCE_OVERFLOW | WEFT_ALLREDUCE_CONGESTION,
};

struct round {
    uint64_t workers;  /* whose contributions the sum has; 0: there is no round */
    int64_t sent;      /* when its result went out last */
    uint32_t chunk;
    uint16_t lanes;    /* on the wire */
    uint8_t exponent, flags, done;
};

struct server {
    struct server_config config;
    struct server_calls calls;
    void *owner;
    struct server_stats stats;
    uint64_t everyone;
    uint16_t epoch;
    uint8_t begun;      /* `epoch` is known */
    struct round *rounds;
    uint32_t *sums;     /* of each round, in the host's order */
    uint8_t *packet;
};

const char *server_wrong(const struct server_config *c)
{
    if (!c->ranks || c->ranks > WORKER_RANKS_MAX)
        return "ranks: from 1 to 64: a partial has a bit for each";
    if (!c->slots || c->slots > WORKER_SLOTS_MAX || c->slots & (c->slots - 1))
        return "slots: a power of two, from 1 to 32768";
    if (!c->lanes || c->lanes > WORKER_LANES_MAX)
        return "lanes: from 1 to 2044";
    if (c->wire_lanes < c->lanes || c->wire_lanes > WORKER_LANES_MAX)
        return "wire_lanes: from lanes to 2044";
    if (c->quiet_ns < 0)
        return "quiet_ns: 0 or more";
    return NULL;
}

static size_t rounds_of(const struct server_config *c)
{
    return OF_SLOT * (size_t)c->slots;
}

size_t server_bytes(const struct server_config *c)
{
    return rounded(sizeof(struct server)) + rounded(rounds_of(c) * sizeof(struct round)) +
           rounded(rounds_of(c) * c->lanes * sizeof(uint32_t)) + rounded(WEFT_ALLREDUCE_BYTES + 4 * (size_t)c->lanes);
}

struct server *server_make(void *memory, const struct server_config *config, const struct server_calls *calls, void *owner)
{
    uint8_t *at = memory;
    struct server *s = memory;
    memset(s, 0, sizeof *s);
    s->config = *config;
    s->calls = *calls;
    s->owner = owner;
    s->everyone = ~(uint64_t)0 >> (WORKER_RANKS_MAX - config->ranks);
    at += rounded(sizeof *s);
    s->rounds = (struct round *)at;
    memset(s->rounds, 0, rounds_of(config) * sizeof *s->rounds);
    at += rounded(rounds_of(config) * sizeof *s->rounds);
    s->sums = (uint32_t *)at;
    at += rounded(rounds_of(config) * config->lanes * sizeof(uint32_t));
    s->packet = at;
    return s;
}

static void send_result(struct server *s, uint32_t number, uint32_t place, int64_t now)
{
    struct round *round = &s->rounds[number];
    const uint32_t lanes = round->lanes ? s->config.lanes : 0;
    const uint32_t *sums = s->sums + (size_t)number * s->config.lanes;
    uint8_t *packet = s->packet;
    memset(packet, 0, WEFT_ALLREDUCE_BYTES);
    packet[0] = WEFT_ALLREDUCE_RESULT;
    packet[1] = round->flags | (round->lanes ? 0 : WEFT_ALLREDUCE_EXPONENT_ONLY);
    put16(packet + 2, s->config.job);
    put16(packet + 4, s->epoch);
    put16(packet + 6, place);
    put32(packet + 8, round->chunk);
    packet[12] = round->exponent;
    put16(packet + 14, round->lanes);
    for (uint32_t i = 0; i < lanes; i++)
        put32(packet + WEFT_ALLREDUCE_BYTES + 4 * (size_t)i, sums[i]);
    round->sent = now;
    s->calls.send(s->owner, packet, WEFT_ALLREDUCE_BYTES + 4 * lanes, 4 * (round->lanes - lanes));
}

/* Sums are modulo 2^32; the flag says that one left int32. */
static void add(struct server *s, uint32_t number, const uint8_t *payload, uint64_t workers, int marked)
{
    struct round *round = &s->rounds[number];
    uint32_t *sums = s->sums + (size_t)number * s->config.lanes, left = 0;
    const uint8_t *from = payload + WEFT_ALLREDUCE_BYTES + WEFT_ALLREDUCE_SET_BYTES;
    const uint32_t lanes = round->lanes ? s->config.lanes : 0;
    for (uint32_t i = 0; i < lanes; i++) {
        const uint32_t old = round->workers ? sums[i] : 0, own = get32(from + 4 * (size_t)i), sum = old + own;
        left |= (old ^ sum) & (own ^ sum);
        sums[i] = sum;
    }
    s->stats.taken++;
    s->stats.overflowed += left >> 31;
    s->stats.congested += (uint64_t)marked;
    round->flags |= (uint8_t)((payload[1] & FLAGS) | (left >> 31 ? WEFT_ALLREDUCE_OVERFLOW : 0) |
                              (marked ? WEFT_ALLREDUCE_CONGESTION : 0));
    if (payload[12] > round->exponent)
        round->exponent = payload[12];
    round->workers |= workers;
}

/* Whether a packet's epoch is the job's; a newer one makes it the job's, and all rounds are over. */
static int keep_epoch(struct server *s, uint16_t epoch)
{
    const int16_t ahead = (int16_t)(uint16_t)(epoch - s->epoch);
    if (s->begun && ahead < 0)
        return 0;
    if (!s->begun || ahead > 0) {
        memset(s->rounds, 0, rounds_of(&s->config) * sizeof *s->rounds);
        s->epoch = epoch;
        s->begun = 1;
    }
    return 1;
}

static int is_partial(const struct server *s, const uint8_t *payload, uint32_t length)
{
    const uint32_t header = WEFT_ALLREDUCE_BYTES + WEFT_ALLREDUCE_SET_BYTES;
    if (length < header || payload[0] != WEFT_ALLREDUCE_PARTIAL || get16(payload + 2) != s->config.job)
        return 0;
    const uint32_t lanes = get16(payload + 14), slot = get16(payload + 6) & 0x7fff, version = get16(payload + 6) >> 15;
    const uint32_t chunk = get32(payload + 8), slots = s->config.slots;
    return slot < slots && (chunk & (slots - 1)) == slot && !!(chunk & slots) == (int)version &&
           (!lanes || (lanes >= s->config.lanes && length >= header + 4 * s->config.lanes));
}

void server_receive(struct server *s, const uint8_t *payload, uint32_t length, int marked, int64_t now)
{
    if (!is_partial(s, payload, length)) {
        s->stats.malformed++;
        return;
    }
    const uint8_t *set = payload + WEFT_ALLREDUCE_BYTES;
    const uint64_t workers = (uint64_t)get32(set) << 32 | get32(set + 4);
    const uint32_t place = get16(payload + 6), chunk = get32(payload + 8), lanes = get16(payload + 14);
    const uint32_t number = (place & 0x7fff) * OF_SLOT + (place >> 15);
    struct round *round = &s->rounds[number];
    if (!workers || workers & ~s->everyone) {
        s->stats.malformed++;
        return;
    }
    if (!keep_epoch(s, (uint16_t)get16(payload + 4))) {
        s->stats.late++;
        return;
    }
    const int32_t ahead = (int32_t)(chunk - round->chunk);
    if (!round->workers || ahead > 0) {
        *round = (struct round){.chunk = chunk, .lanes = (uint16_t)lanes};
    } else if (ahead < 0) {
        s->stats.late++;
        return;
    } else if (round->lanes != lanes) {
        s->stats.malformed++;
        return;
    } else if (round->done) {
        s->stats.doubled++;
        if (now - round->sent >= s->config.quiet_ns) {
            s->stats.answered++;
            send_result(s, number, place, now);
        }
        return;
    } else if (round->workers & workers) {
        if (workers & ~round->workers)
            s->stats.overlapping++;
        else
            s->stats.doubled++;
        return;
    }
    s->stats.whole += workers == s->everyone;
    add(s, number, payload, workers, marked);
    if (round->workers == s->everyone) {
        round->done = 1;
        s->stats.results++;
        send_result(s, number, place, now);
    }
}

const struct server_stats *server_stats_of(const struct server *s)
{
    return &s->stats;
}
