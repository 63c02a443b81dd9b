/* Owns what a rank has of the open call's blocks, which of its own were asked for, and when the next one may be sent. */
#include "blocks.h"

#include <string.h>

#include "allreduce.h"
#include "bytes.h"

enum {
    WORD = 64,
    JITTER_SHIFT = 2,  /* the random part of the time between requests: up to a quarter of it */
    SEVERAL = 0xffff,  /* more than one rank asked for a block */
    STAMP_SHIFT = 10,  /* floods are remembered by so many ns */
    BEHIND_MOST = 32,  /* blocks that are sent at once, at most, where timers are late */
    PS = 1000,
};

static const int64_t TIMEOUT_MAX = (int64_t)1 << 40;

/* What a rank has of one sender. */
struct source {
    uint32_t first; /* all blocks before it are there */
    uint32_t high;  /* behind the last block that came */
    uint32_t mark;  /* `high` when it was last looked at: what is missing before it has had time to come */
    uint32_t left;
    int64_t heard;
};

struct blocks {
    struct blocks_config config;
    struct blocks_calls calls;
    void *owner;
    struct blocks_stats stats;
    uint64_t random;
    uint64_t lanes;      /* of each sender of the call */
    int32_t root;
    uint32_t base, end;  /* numbers of the call's blocks; those of the next call begin at `end` */
    uint32_t n, words;   /* blocks of a sender, and words of its bitmap */
    uint32_t incomplete; /* senders of which blocks are missing */
    uint32_t own, next;  /* of this rank's blocks: all, and the first that was not sent yet */
    uint32_t queue_first, queued;
    uint32_t turn;       /* trees behind the epoch's */
    uint32_t level;
    int64_t turned, heard, armed, look_at;
    int64_t interval_ps, due_ps; /* between two of its blocks; of the next one */
    uint8_t open, going, told, news;
    struct source *sources;
    uint64_t *bits;      /* by sender */
    uint32_t *queue;     /* own blocks that are to be sent again, a ring */
    uint32_t *floods;    /* by own block: when it was last flooded again, + 1; 0: never */
    uint16_t *wanted;    /* by own block: 0, the rank that asked + 1, or SEVERAL: it is in the queue */
    int32_t *block;      /* one block's lanes, in the host's order */
    uint8_t *packet;
};

/* --- making it ----------------------------------------------------------------------------------- */

const char *blocks_wrong(const struct blocks_config *c)
{
    if (!c->ranks || c->ranks > BLOCKS_RANKS_MAX)
        return "ranks: from 1 to 32768";
    if (c->rank >= c->ranks)
        return "rank: from 0 to ranks - 1";
    if (!c->lanes || c->wire_lanes < c->lanes || c->wire_lanes > UINT16_MAX)
        return "lanes: from 1 to wire_lanes, which is at most 65535";
    if (c->most > (uint64_t)INT32_MAX * c->wire_lanes)
        return "most: at most 2^31 blocks";
    if (c->slot_ps <= 0 || c->slot_ps > TIMEOUT_MAX)
        return "slot_ps: from 1 to 2^40";
    if (c->timeout_ns <= 0 || c->timeout_ns > TIMEOUT_MAX)
        return "timeout_ns: from 1 to 2^40";
    return NULL;
}

static size_t blocks_most(const struct blocks_config *c)
{
    return (size_t)(c->most / c->wire_lanes) + 1;
}

static size_t words_most(const struct blocks_config *c)
{
    return blocks_most(c) / WORD + 2 * (size_t)c->ranks + 1; /* each sender's last block and last word may be short */
}

static size_t packet_bytes(const struct blocks_config *c)
{
    const size_t asks = BLOCKS_ASKED_MAX / 8, lanes = 4 * (size_t)c->lanes;
    return WEFT_ALLREDUCE_BYTES + (asks > lanes ? asks : lanes);
}

size_t blocks_bytes(const struct blocks_config *c)
{
    return rounded(sizeof(struct blocks)) + rounded(c->ranks * sizeof(struct source)) + rounded(words_most(c) * sizeof(uint64_t)) +
           2 * rounded(blocks_most(c) * sizeof(uint32_t)) + rounded(blocks_most(c) * sizeof(uint16_t)) +
           rounded(c->lanes * sizeof(int32_t)) + rounded(packet_bytes(c));
}

static void *piece(uint8_t **at, size_t bytes)
{
    void *here = *at;
    *at += rounded(bytes);
    return here;
}

struct blocks *blocks_make(void *memory, const struct blocks_config *config, const struct blocks_calls *calls, void *owner)
{
    uint8_t *at = memory;
    struct blocks *b = piece(&at, sizeof *b);
    memset(b, 0, sizeof *b);
    b->config = *config;
    b->calls = *calls;
    b->owner = owner;
    b->random = config->seed;
    b->armed = BLOCKS_NEVER;
    b->end = config->first;
    b->sources = piece(&at, config->ranks * sizeof *b->sources);
    b->bits = piece(&at, words_most(config) * sizeof *b->bits);
    b->queue = piece(&at, blocks_most(config) * sizeof *b->queue);
    b->floods = piece(&at, blocks_most(config) * sizeof *b->floods);
    b->wanted = piece(&at, blocks_most(config) * sizeof *b->wanted);
    b->block = piece(&at, config->lanes * sizeof *b->block);
    b->packet = piece(&at, packet_bytes(config));
    return b;
}

/* --- small things ---------------------------------------------------------------------------------- */

static uint64_t random_word(struct blocks *b)
{
    uint64_t x = b->random += 0x9e3779b97f4a7c15u; /* splitmix64 */
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

static int sends(const struct blocks *b, uint32_t rank)
{
    return b->root == BLOCKS_ALL || (uint32_t)b->root == rank;
}

static uint32_t senders(const struct blocks *b)
{
    return b->root == BLOCKS_ALL ? b->config.ranks : 1;
}

static uint64_t *bits_of(const struct blocks *b, uint32_t rank)
{
    return b->bits + (b->root == BLOCKS_ALL ? (size_t)rank * b->words : 0);
}

static int has(const uint64_t *bits, uint32_t block)
{
    return bits[block / WORD] >> block % WORD & 1;
}

/* The last block of a sender may be short. */
static uint32_t wire_lanes_of(const struct blocks *b, uint32_t block)
{
    const uint64_t behind = b->lanes - (uint64_t)block * b->config.wire_lanes;
    return behind < b->config.wire_lanes ? (uint32_t)behind : b->config.wire_lanes;
}

static uint32_t lanes_of(const struct blocks *b, uint32_t block)
{
    const uint32_t wire = wire_lanes_of(b, block);
    return wire < b->config.lanes ? wire : b->config.lanes;
}

/* --- time ------------------------------------------------------------------------------------------- */

/* Between two looks at what is missing: longer than a sender's blocks are apart. */
static int64_t period(const struct blocks *b)
{
    return b->config.timeout_ns + 2 * b->interval_ps / PS;
}

static void look_later(struct blocks *b, int64_t now)
{
    const int64_t base = period(b) << b->level;
    b->look_at = now + base + (int64_t)(random_word(b) % ((uint64_t)(base >> JITTER_SHIFT) + 1));
}

static int to_send(const struct blocks *b)
{
    return b->going && (b->queued || b->next < b->own);
}

static void arm(struct blocks *b)
{
    const int64_t due = to_send(b) ? (b->due_ps + PS - 1) / PS : BLOCKS_NEVER;
    const int64_t look = b->going && b->incomplete ? b->look_at : BLOCKS_NEVER;
    const int64_t at = due < look ? due : look;
    if (at != b->armed) {
        b->armed = at;
        b->calls.set_timer(b->owner, at);
    }
}

/* --- sending ------------------------------------------------------------------------------------------ */

static void send_block(struct blocks *b, uint32_t block, uint32_t to)
{
    const uint32_t wire = wire_lanes_of(b, block), lanes = lanes_of(b, block);
    const uint16_t epoch = b->calls.epoch(b->owner);
    uint8_t *packet = b->packet;
    memset(packet, 0, WEFT_ALLREDUCE_BYTES);
    packet[0] = WEFT_ALLREDUCE_BLOCK;
    put16(packet + 2, b->config.job);
    put16(packet + 4, (epoch & ~(WEFT_ALLREDUCE_TREES - 1u)) | ((epoch + b->turn) & (WEFT_ALLREDUCE_TREES - 1u)));
    put16(packet + 6, b->config.rank);
    put32(packet + 8, b->base + block);
    put16(packet + 14, wire);
    b->calls.fill(b->owner, block, b->block, lanes);
    for (uint32_t i = 0; i < lanes; i++)
        put32(packet + WEFT_ALLREDUCE_BYTES + 4 * (size_t)i, (uint32_t)b->block[i]);
    b->calls.send(b->owner, to, packet, WEFT_ALLREDUCE_BYTES + 4 * lanes, 4 * (wire - lanes));
}

static uint32_t stamp(int64_t now)
{
    return (uint32_t)(now >> STAMP_SHIFT) + 1;
}

/* What was asked for comes first: a rank that misses little is not to wait for all the rest. */
static void send_next(struct blocks *b, int64_t now)
{
    if (!b->queued) {
        b->stats.sent++;
        b->heard = now;
        send_block(b, b->next++, BLOCKS_FLOOD);
        return;
    }
    const uint32_t block = b->queue[b->queue_first], who = b->wanted[block];
    b->queue_first = (b->queue_first + 1) % b->own;
    b->queued--;
    b->wanted[block] = 0;
    if (who != SEVERAL) {
        b->stats.unicast++;
        send_block(b, block, who - 1);
    } else {
        b->stats.flooded++;
        b->floods[block] = stamp(now);
        send_block(b, block, BLOCKS_FLOOD);
    }
}

static void pump(struct blocks *b, int64_t now)
{
    const int64_t now_ps = now * PS;
    if (b->due_ps < now_ps - BEHIND_MOST * b->interval_ps)
        b->due_ps = now_ps - BEHIND_MOST * b->interval_ps;
    while (to_send(b) && b->due_ps <= now_ps) {
        send_next(b, now);
        b->due_ps += b->interval_ps;
    }
}

static void want(struct blocks *b, uint32_t block, uint32_t rank, int64_t now)
{
    if (b->floods[block]) {
        const uint32_t ago = stamp(now) - b->floods[block];
        if (ago < (uint32_t)(b->config.timeout_ns >> (STAMP_SHIFT + 1)))
            return; /* it is on its way to all */
        if (now - b->turned >= b->config.timeout_ns) { /* it did not get there: by another tree */
            b->turned = now;
            b->turn++;
            b->stats.turns++;
        }
    }
    if (!b->wanted[block]) {
        b->wanted[block] = (uint16_t)(rank + 1);
        b->queue[(b->queue_first + b->queued++) % b->own] = block;
    } else if (b->wanted[block] != rank + 1) {
        b->wanted[block] = SEVERAL;
    }
}

/* --- asking ------------------------------------------------------------------------------------------- */

static void ask(struct blocks *b, uint32_t rank, uint32_t until)
{
    struct source *source = &b->sources[rank];
    const uint64_t *bits = bits_of(b, rank);
    uint8_t *packet = b->packet;
    while (source->first < b->n && has(bits, source->first))
        source->first++;
    if (source->first >= until)
        return;
    uint32_t n = until - source->first;
    if (n > BLOCKS_ASKED_MAX)
        n = BLOCKS_ASKED_MAX;
    const uint32_t bytes = (n + 7) / 8;
    memset(packet, 0, WEFT_ALLREDUCE_BYTES + bytes);
    packet[0] = BLOCKS_ASK;
    put16(packet + 2, b->config.job);
    put16(packet + 4, b->config.rank);
    put16(packet + 6, rank);
    put32(packet + 8, b->base + source->first);
    put32(packet + 12, n);
    for (uint32_t i = 0; i < n; i++)
        if (!has(bits, source->first + i))
            packet[WEFT_ALLREDUCE_BYTES + i / 8] |= (uint8_t)(1u << i % 8);
    b->stats.asked++;
    b->calls.send(b->owner, rank, packet, WEFT_ALLREDUCE_BYTES + bytes, 0);
}

/* Asks each sender for what is missing before the last block that had come when it was last looked at; of a sender
 * that has been silent since, for all. */
static void look(struct blocks *b, int64_t now)
{
    if (b->news)
        b->level = 0;
    else if (b->level < BLOCKS_DOUBLINGS)
        b->level++;
    b->news = 0;
    for (uint32_t rank = 0; rank < b->config.ranks; rank++) {
        struct source *source = &b->sources[rank];
        if (!source->left)
            continue;
        const int silent = now - source->heard >= period(b);
        ask(b, rank, silent ? b->n : source->mark);
        source->mark = source->high;
    }
    look_later(b, now);
}

/* --- receiving ---------------------------------------------------------------------------------------- */

static void tell(struct blocks *b)
{
    if (b->going && !b->told && !b->incomplete && b->next == b->own) {
        b->told = 1;
        b->calls.complete(b->owner);
    }
}

static void receive_block(struct blocks *b, const uint8_t *payload, uint32_t length, int64_t now)
{
    const uint32_t rank = get16(payload + 6), block = get32(payload + 8) - b->base;
    if (!b->open || block >= b->n) {
        b->stats.late++;
        return;
    }
    const uint32_t lanes = lanes_of(b, block);
    if (rank >= b->config.ranks || rank == b->config.rank || !sends(b, rank) || get16(payload + 14) != wire_lanes_of(b, block) ||
        length < WEFT_ALLREDUCE_BYTES + 4 * lanes) {
        b->stats.malformed++;
        return;
    }
    struct source *source = &b->sources[rank];
    uint64_t *bits = bits_of(b, rank);
    source->heard = now;
    if (has(bits, block)) {
        b->stats.doubled++;
        return;
    }
    bits[block / WORD] |= (uint64_t)1 << block % WORD;
    if (block >= source->high)
        source->high = block + 1;
    b->stats.taken++;
    b->news = 1;
    b->heard = now;
    for (uint32_t i = 0; i < lanes; i++)
        b->block[i] = (int32_t)get32(payload + WEFT_ALLREDUCE_BYTES + 4 * (size_t)i);
    b->calls.take(b->owner, rank, block, b->block, lanes);
    if (!--source->left)
        b->incomplete--;
}

static void receive_ask(struct blocks *b, const uint8_t *payload, uint32_t length, int64_t now)
{
    const uint32_t rank = get16(payload + 4), first = get32(payload + 8) - b->base, n = get32(payload + 12);
    if (rank >= b->config.ranks || rank == b->config.rank || get16(payload + 6) != b->config.rank || !n || n > BLOCKS_ASKED_MAX ||
        length < WEFT_ALLREDUCE_BYTES + (n + 7) / 8) {
        b->stats.malformed++;
        return;
    }
    if (!b->going || first >= b->own) {
        b->stats.late++;
        return;
    }
    b->stats.answered++;
    if (!to_send(b) && b->due_ps < now * PS)
        b->due_ps = now * PS;
    for (uint32_t i = 0; i < n && first + i < b->next; i++) /* what was not sent yet is on its way */
        if (payload[WEFT_ALLREDUCE_BYTES + i / 8] >> i % 8 & 1)
            want(b, first + i, rank, now);
    pump(b, now);
}

void blocks_receive(struct blocks *b, const uint8_t *payload, uint32_t length, int64_t now)
{
    if (length < WEFT_ALLREDUCE_BYTES || get16(payload + 2) != b->config.job ||
        (payload[0] != WEFT_ALLREDUCE_BLOCK && payload[0] != BLOCKS_ASK)) {
        b->stats.malformed++;
        return;
    }
    if (payload[0] == WEFT_ALLREDUCE_BLOCK)
        receive_block(b, payload, length, now);
    else
        receive_ask(b, payload, length, now);
    arm(b);
    tell(b);
}

/* --- calls ---------------------------------------------------------------------------------------------- */

int blocks_begin(struct blocks *b, int32_t root, uint64_t lanes, int64_t now)
{
    const uint64_t many = root == BLOCKS_ALL ? b->config.ranks : 1;
    if (b->open)
        return BLOCKS_BUSY;
    if (root < BLOCKS_ALL || root >= (int64_t)b->config.ranks || !lanes || lanes > b->config.most / many)
        return BLOCKS_INVALID;
    b->open = 1;
    b->going = b->told = b->news = 0;
    b->root = root;
    b->lanes = lanes;
    b->n = (uint32_t)((lanes + b->config.wire_lanes - 1) / b->config.wire_lanes);
    b->words = (b->n + WORD - 1) / WORD;
    b->base = b->end;
    b->end += b->n;
    b->own = sends(b, b->config.rank) ? b->n : 0;
    b->next = b->queued = b->queue_first = b->level = 0;
    b->heard = b->turned = now;
    /* Each sender has its share of a receiver's link, and its place in the round: what comes to a receiver is what its link takes. */
    b->interval_ps = b->config.slot_ps * (senders(b) > 1 ? senders(b) - 1 : 1);
    b->incomplete = 0;
    for (uint32_t rank = 0; rank < b->config.ranks; rank++) {
        const uint32_t left = rank != b->config.rank && sends(b, rank) ? b->n : 0;
        b->sources[rank] = (struct source){.left = left, .heard = now};
        b->incomplete += left > 0;
    }
    memset(b->bits, 0, (size_t)senders(b) * b->words * sizeof *b->bits);
    memset(b->floods, 0, b->own * sizeof *b->floods);
    memset(b->wanted, 0, b->own * sizeof *b->wanted);
    return BLOCKS_OK;
}

void blocks_go(struct blocks *b, int64_t now)
{
    if (!b->open || b->going)
        return;
    b->going = 1;
    b->heard = now;
    b->due_ps = now * PS + (senders(b) > 1 ? b->interval_ps / senders(b) * b->config.rank : 0);
    for (uint32_t rank = 0; rank < b->config.ranks; rank++)
        b->sources[rank].heard = now;
    look_later(b, now);
    pump(b, now);
    arm(b);
    tell(b);
}

void blocks_end(struct blocks *b)
{
    b->open = b->going = 0;
    b->queued = b->next = b->own = b->incomplete = 0;
    arm(b);
}

void blocks_timer(struct blocks *b, int64_t now)
{
    if (now < b->armed)
        return;
    b->armed = BLOCKS_NEVER;
    if (!b->going)
        return;
    pump(b, now);
    if (b->incomplete && b->look_at <= now)
        look(b, now);
    arm(b);
    tell(b);
}

/* --- what it says of itself ------------------------------------------------------------------------------- */

const struct blocks_stats *blocks_stats_of(const struct blocks *b)
{
    return &b->stats;
}

int64_t blocks_heard(const struct blocks *b)
{
    return b->heard;
}

uint32_t blocks_missing(const struct blocks *b)
{
    for (uint32_t rank = 0; rank < b->config.ranks; rank++)
        if (b->open && b->sources[rank].left)
            return rank;
    return b->config.ranks;
}
