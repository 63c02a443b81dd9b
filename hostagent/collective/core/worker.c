/* Owns a worker's slots: what is in flight, what was before it, and which chunk may be sent next. */
#include "worker.h"

#include <string.h>

#include "allreduce.h"
#include "bytes.h"

enum {
    OF_SLOT = 2,       /* packets that are kept: what is in flight, and the one before */
    JITTER_SHIFT = 2,  /* a time-out's random part: up to a quarter of it */
    REPEATS_MOST = 128, /* then half of them is forgotten */
    SPURIOUS_LEAST = 4,
    OVERTAKEN_PART = 4, /* of the window: by as many later chunks one is overtaken */
    STRETCH_SHIFT = 6, /* after as many time-outs (a power of two) of which none came too soon, they are shorter */
};

static const int64_t TIMEOUT_MAX = (int64_t)1 << 40;

enum slot_state {
    SLOT_IDLE,   /* `next` can't be sent yet: no call has it, or its exponent is not known */
    SLOT_READY,  /* `next` waits for the window */
    SLOT_FLIGHT, /* `next` was sent */
};

struct slot {
    uint64_t next;    /* the chunk that has no result yet */
    int64_t deadline; /* in flight: when it is repeated */
    uint8_t state;
    uint8_t kept;     /* bit v: version v's packet is there */
    uint8_t both;     /* the job moved: time-outs repeat both packets */
    uint8_t repeated; /* bit 0: a time-out has repeated `next`; bit 1: the chunk before it */
};

struct call {
    uint64_t base, end; /* chunks of the job */
    uint64_t left;      /* without a result */
    uint64_t tag;
    uint32_t chunks, lead;
    uint8_t kind;
};

struct worker {
    struct worker_config config;
    struct worker_calls calls;
    void *owner;
    struct worker_stats stats;
    uint64_t end;       /* behind the last call's last chunk */
    uint64_t low;       /* all chunks before this one have results */
    uint64_t sent_end;  /* behind the last chunk that was sent */
    uint64_t cut_end;   /* chunks before this one were sent before the window's last cut */
    uint64_t looked;    /* best effort: who lagged behind the results of others before this chunk was repeated */
    uint64_t random;
    int64_t armed, heard, raised, answered;
    int64_t limit;      /* how long after `raised` it is silent */
    int64_t stretched;  /* when `stretch` changed */
    uint32_t flying, window, unmarked;
    uint32_t level, silent; /* how often time-outs have doubled since the last result; time-outs without any */
    uint32_t stretch;       /* how often they have doubled because they came too soon */
    uint32_t repeats, spurious; /* of late: chunks that time-outs repeated, and those of them that were only slow */
    uint32_t packet_bytes, slot_mask, slot_bits;
    uint16_t epoch;
    uint8_t mover;      /* it began this epoch */
    uint8_t move[WEFT_ALLREDUCE_BYTES];
    uint32_t first_call, n_calls;
    uint32_t n_ready;
    struct call ring[WORKER_CALLS];
    struct slot *slots;
    uint32_t *ready;    /* a heap of slots, by `next` */
    int32_t *lanes;     /* one chunk, in the host's order */
    uint8_t *packets;
};

/* --- making it ----------------------------------------------------------------------------------- */

const char *worker_wrong(const struct worker_config *c)
{
    if (!c->slots || c->slots > WORKER_SLOTS_MAX || c->slots & (c->slots - 1))
        return "slots: a power of two, from 1 to 32768";
    if (!c->lanes || c->lanes > WORKER_LANES_MAX)
        return "lanes: from 1 to 2044";
    if (c->wire_lanes < c->lanes || c->wire_lanes > WORKER_LANES_MAX)
        return "wire_lanes: from lanes to 2044";
    if (!c->window || c->window > c->slots)
        return "window: from 1 to slots";
    if (c->timeout_ns <= 0 || c->timeout_ns > TIMEOUT_MAX)
        return "timeout_ns: from 1 to 2^40";
    if (c->best_effort && c->rank >= WORKER_RANKS_MAX)
        return "rank: below 64, where the job is best effort";
    if (c->best_effort && c->patience)
        return "patience: 0, where the job is best effort: it has nowhere to move";
    return NULL;
}

/* What a contribution has in front of its lanes. */
static uint32_t header_bytes(const struct worker_config *c)
{
    return WEFT_ALLREDUCE_BYTES + (c->best_effort ? WEFT_ALLREDUCE_SET_BYTES : 0);
}

static size_t packet_bytes(const struct worker_config *c)
{
    return rounded(header_bytes(c) + 4 * (size_t)c->lanes);
}

size_t worker_bytes(const struct worker_config *c)
{
    return rounded(sizeof(struct worker)) + rounded(c->slots * sizeof(struct slot)) + rounded(c->slots * sizeof(uint32_t)) +
           rounded(c->lanes * sizeof(int32_t)) + OF_SLOT * c->slots * packet_bytes(c);
}

struct worker *worker_make(void *memory, const struct worker_config *config, const struct worker_calls *calls, void *owner)
{
    uint8_t *at = memory;
    struct worker *w = memory;
    memset(w, 0, sizeof *w);
    w->config = *config;
    w->calls = *calls;
    w->owner = owner;
    w->epoch = config->epoch;
    w->window = config->window;
    w->random = config->seed;
    w->armed = WORKER_NEVER;
    w->answered = -WORKER_NEVER;
    w->packet_bytes = (uint32_t)packet_bytes(config);
    w->slot_mask = config->slots - 1;
    w->slot_bits = (uint32_t)__builtin_ctz(config->slots);
    at += rounded(sizeof *w);
    w->slots = (struct slot *)at;
    at += rounded(config->slots * sizeof *w->slots);
    w->ready = (uint32_t *)at;
    at += rounded(config->slots * sizeof *w->ready);
    w->lanes = (int32_t *)at;
    at += rounded(config->lanes * sizeof *w->lanes);
    w->packets = at;
    memset(w->slots, 0, config->slots * sizeof *w->slots);
    for (uint32_t i = 0; i < config->slots; i++)
        w->slots[i].next = i;
    return w;
}

/* --- small things ---------------------------------------------------------------------------------- */

/* Lanes go to and come from the network's order; loops that compilers turn into shuffles. */
static void put_lanes(uint8_t *to, const int32_t *from, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t swapped = __builtin_bswap32((uint32_t)from[i]);
        memcpy(to + 4 * (size_t)i, &swapped, 4);
    }
}

static void get_lanes(int32_t *to, const uint8_t *from, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        uint32_t raw;
        memcpy(&raw, from + 4 * (size_t)i, 4);
        to[i] = (int32_t)__builtin_bswap32(raw);
    }
}

static uint64_t random_word(struct worker *w)
{
    uint64_t x = w->random += 0x9e3779b97f4a7c15u; /* splitmix64 */
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

static uint32_t version_of(const struct worker *w, uint64_t chunk)
{
    return (uint32_t)(chunk >> w->slot_bits) & 1;
}

static uint8_t *packet_of(struct worker *w, uint32_t slot, uint32_t version)
{
    return w->packets + ((size_t)slot * OF_SLOT + version) * w->packet_bytes;
}

static struct call *call_at(struct worker *w, uint32_t i)
{
    return &w->ring[(w->first_call + i) % WORKER_CALLS];
}

static struct call *call_of(struct worker *w, uint64_t chunk)
{
    for (uint32_t i = 0; i < w->n_calls; i++) {
        struct call *call = call_at(w, i);
        if (chunk < call->end)
            return chunk >= call->base ? call : NULL;
    }
    return NULL;
}

/* Whether packet `index` of a call has lanes, and of which of its chunks: then `index - lead`. */
static int has_data(const struct call *call, uint64_t index)
{
    return call->kind != WORKER_BARRIER && index >= call->lead;
}

static int has_result(const struct worker *w, uint64_t chunk)
{
    return w->slots[chunk & w->slot_mask].next > chunk;
}

/* --- time ------------------------------------------------------------------------------------------- */

static int64_t timeout_now(const struct worker *w)
{
    const uint32_t doubled = w->level + w->stretch;
    return w->config.timeout_ns << (doubled < WORKER_BACKOFF ? doubled : WORKER_BACKOFF);
}

static int64_t timeout(struct worker *w)
{
    const int64_t base = timeout_now(w);
    return base + (int64_t)(random_word(w) % ((uint64_t)(base >> JITTER_SHIFT) + 1));
}

static void arm(struct worker *w, int64_t at)
{
    if (at < w->armed) {
        w->armed = at;
        w->calls.set_timer(w->owner, at);
    }
}

static void expect(struct worker *w, struct slot *slot, int64_t now)
{
    slot->deadline = now + timeout(w);
    arm(w, slot->deadline);
}

/* --- sending ------------------------------------------------------------------------------------------ */

static void send_kept(struct worker *w, uint32_t number, uint64_t chunk)
{
    const uint32_t version = version_of(w, chunk);
    uint8_t *packet = packet_of(w, number, version);
    const uint32_t wire = get16(packet + 14), lanes = wire ? w->config.lanes : 0;
    put16(packet + 4, w->epoch);
    w->stats.sent++;
    w->calls.send(w->owner, packet, header_bytes(&w->config) + 4 * lanes, 4 * (wire - lanes));
}

/* The same after a time-out, or a move: a partial says so, and no cell waits for others with it. */
static void repeat_kept(struct worker *w, uint32_t number, uint64_t chunk)
{
    if (w->config.best_effort)
        packet_of(w, number, version_of(w, chunk))[1] |= WEFT_ALLREDUCE_AGAIN;
    send_kept(w, number, chunk);
}

/* The chunk before the one that has no result; where that is in flight, others may still wait for both. Returns how many were sent. */
static uint32_t send_again(struct worker *w, uint32_t number, int before)
{
    const struct slot *slot = &w->slots[number];
    uint32_t n = 0;
    if (before && slot->next >= w->config.slots && slot->kept >> version_of(w, slot->next - w->config.slots) & 1) {
        repeat_kept(w, number, slot->next - w->config.slots);
        n++;
    }
    if (slot->state == SLOT_FLIGHT) {
        repeat_kept(w, number, slot->next);
        n++;
    }
    return n;
}

static void send_first(struct worker *w, uint32_t number, int64_t now)
{
    struct slot *slot = &w->slots[number];
    const struct call *call = call_of(w, slot->next);
    const uint64_t index = slot->next - call->base;
    const uint32_t version = version_of(w, slot->next), data = has_data(call, index);
    uint8_t *packet = packet_of(w, number, version);
    const int scaled = call->kind == WORKER_SCALED && index < call->chunks;
    const uint32_t wire_lanes = call->kind == WORKER_SHORT ? w->config.lanes : w->config.wire_lanes;
    packet[0] = w->config.best_effort ? WEFT_ALLREDUCE_PARTIAL : WEFT_ALLREDUCE_CONTRIBUTION;
    packet[1] = data ? 0 : WEFT_ALLREDUCE_EXPONENT_ONLY;
    put16(packet + 2, w->config.job);
    put16(packet + 6, version << 15 | number);
    put32(packet + 8, (uint32_t)slot->next);
    packet[12] = scaled ? w->calls.exponent(w->owner, call->tag, (uint32_t)index) : 0;
    packet[13] = 0;
    put16(packet + 14, data ? wire_lanes : 0);
    if (w->config.best_effort) {
        const uint64_t own = (uint64_t)1 << w->config.rank;
        put32(packet + WEFT_ALLREDUCE_BYTES, (uint32_t)(own >> 32));
        put32(packet + WEFT_ALLREDUCE_BYTES + 4, (uint32_t)own);
    }
    if (data) {
        w->calls.fill(w->owner, call->tag, (uint32_t)(index - call->lead), w->lanes);
        put_lanes(packet + header_bytes(&w->config), w->lanes, w->config.lanes);
    }
    slot->kept |= (uint8_t)(1u << version);
    slot->state = SLOT_FLIGHT;
    if (!w->flying++) {
        w->heard = w->raised = now;
        w->limit = timeout(w);
    }
    if (slot->next >= w->sent_end)
        w->sent_end = slot->next + 1;
    send_kept(w, number, slot->next);
    expect(w, slot, now);
}

static void ready_push(struct worker *w, uint32_t number)
{
    uint32_t at = w->n_ready++;
    while (at && w->slots[w->ready[(at - 1) / 2]].next > w->slots[number].next) {
        w->ready[at] = w->ready[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    w->ready[at] = number;
}

static uint32_t ready_pop(struct worker *w)
{
    const uint32_t first = w->ready[0], last = w->ready[--w->n_ready];
    uint32_t at = 0;
    for (;;) {
        uint32_t child = 2 * at + 1;
        if (child >= w->n_ready)
            break;
        if (child + 1 < w->n_ready && w->slots[w->ready[child + 1]].next < w->slots[w->ready[child]].next)
            child++;
        if (w->slots[w->ready[child]].next >= w->slots[last].next)
            break;
        w->ready[at] = w->ready[child];
        at = child;
    }
    w->ready[at] = last;
    return first;
}

/* Sends what the window lets through. Chunks near the lowest one without a result go whatever else is in flight: of two workers
 * whose windows are full of different chunks, neither would ever get a result. */
static void pump(struct worker *w, int64_t now)
{
    while (w->n_ready && (w->flying < w->window || w->slots[w->ready[0]].next < w->low + w->window))
        send_first(w, ready_pop(w), now);
}

static void consider(struct worker *w, uint32_t number)
{
    struct slot *slot = &w->slots[number];
    if (slot->state != SLOT_IDLE || slot->next >= w->end)
        return;
    const struct call *call = call_of(w, slot->next);
    if (!call)
        return;
    if (call->kind == WORKER_SCALED && slot->next - call->base >= call->lead && !has_result(w, slot->next - call->lead))
        return;
    slot->state = SLOT_READY;
    ready_push(w, number);
}

/* --- calls ---------------------------------------------------------------------------------------------- */

int worker_begin(struct worker *w, enum worker_kind kind, uint32_t chunks, uint64_t tag, int64_t now)
{
    if (kind > WORKER_SHORT || (kind == WORKER_BARRIER ? chunks != 0 : chunks == 0 || chunks > (uint32_t)INT32_MAX))
        return WORKER_INVALID;
    if (w->n_calls == WORKER_CALLS)
        return WORKER_FULL;
    const uint32_t lead = kind != WORKER_SCALED ? 0 : chunks < w->config.slots ? chunks : w->config.slots;
    const uint64_t packets = kind == WORKER_BARRIER ? 1 : (uint64_t)chunks + lead;
    *call_at(w, w->n_calls++) = (struct call){.base = w->end, .end = w->end + packets, .left = packets, .tag = tag,
                                              .chunks = chunks, .lead = lead, .kind = (uint8_t)kind};
    const uint64_t base = w->end;
    w->end += packets;
    for (uint64_t i = 0; i < packets && i < w->config.slots; i++)
        if (w->slots[(base + i) & w->slot_mask].next == base + i)
            consider(w, (uint32_t)((base + i) & w->slot_mask));
    pump(w, now);
    return WORKER_OK;
}

/* --- moves ---------------------------------------------------------------------------------------------- */

static void send_move(struct worker *w)
{
    w->move[0] = WEFT_ALLREDUCE_MOVE;
    put16(w->move + 2, w->config.job);
    put16(w->move + 4, w->epoch);
    w->stats.sent++;
    w->calls.send(w->owner, w->move, sizeof w->move, 0);
}

static void go_on_to(struct worker *w, uint16_t epoch, int64_t now)
{
    w->epoch = epoch;
    w->stats.moved++;
    w->silent = 0;
    w->answered = w->raised = now;
    for (uint32_t i = 0; i < w->config.slots; i++) {
        w->stats.sent_again += send_again(w, i, 1);
        w->slots[i].both = 1;
        if (w->slots[i].state == SLOT_FLIGHT)
            expect(w, &w->slots[i], now);
    }
}

/* Somebody is stuck, and may need what this worker has no time-outs for any more. Several may have begun the same move. */
static void answer(struct worker *w, int64_t now)
{
    if (now - w->answered < w->config.timeout_ns)
        return;
    w->answered = now;
    for (uint32_t i = 0; i < w->config.slots; i++)
        if (w->slots[i].state != SLOT_FLIGHT)
            w->stats.sent_again += send_again(w, i, 1);
}

static void hear_move(struct worker *w, uint32_t flags, uint16_t epoch, int64_t now)
{
    const int16_t ahead = (int16_t)(uint16_t)(epoch - w->epoch);
    if (ahead > 0) {
        w->mover = 0;
        go_on_to(w, epoch, now);
    } else if (!ahead && flags & WEFT_ALLREDUCE_FROM_ROOT) {
        answer(w, now);
    }
}

/* --- results -------------------------------------------------------------------------------------------- */

static void follow_marks(struct worker *w, uint64_t chunk, int marked)
{
    w->stats.congested += (uint64_t)marked;
    if (!w->config.adapt)
        return;
    if (!marked) {
        if (++w->unmarked >= w->window) {
            w->unmarked = 0;
            w->window += w->window < w->config.window;
        }
    } else if (chunk >= w->cut_end) { /* one cut a round */
        w->cut_end = w->sent_end;
        w->unmarked = 0;
        w->window = w->window > 1 ? w->window / 2 : 1;
        w->stats.cuts++;
    }
}

/* Results come again: time-outs are short again, also those that were set. */
static void hear(struct worker *w, int64_t now)
{
    w->heard = w->raised = now;
    w->silent = 0;
    if (!w->level)
        return;
    w->level = 0;
    w->limit = timeout(w);
    for (uint32_t i = 0; i < w->config.slots; i++)
        if (w->slots[i].state == SLOT_FLIGHT) {
            const int64_t at = now + timeout(w);
            if (at < w->slots[i].deadline) {
                w->slots[i].deadline = at;
                arm(w, at);
            }
        }
}

/* The result of a chunk that has one already, and that a time-out had repeated: the first was only slow. Where that is true of most,
 * time-outs are too short: they would fill a network with repeats whose queues are longer. Where packets are lost it is
 * true of few: two workers ask for what both have lost. */
static void hear_late(struct worker *w, struct slot *slot, uint32_t place, uint32_t chunk, int64_t now)
{
    const uint64_t before = slot->next - w->config.slots;
    w->stats.late++;
    if (!(slot->repeated & 2) || slot->next < w->config.slots || place >> 15 != version_of(w, before) || chunk != (uint32_t)before)
        return;
    slot->repeated &= 1;
    w->stats.spurious++;
    w->spurious++;
    if (w->stretch < WORKER_BACKOFF && w->spurious >= SPURIOUS_LEAST && 2 * w->spurious >= w->repeats &&
        now - w->stretched >= timeout_now(w)) {
        w->stretch++;
        w->stretched = now;
        w->spurious = w->repeats = 0;
    }
}

/* Best effort: a chunk that so many later ones have overtaken may be in two parts, one of which waits in a cell for the other. A repeat
 * takes it along, and no time-out has to be waited for. */
static void repeat_overtaken(struct worker *w, uint64_t chunk)
{
    const uint64_t lag = w->config.window / OVERTAKEN_PART + 1;
    if (w->looked < w->low)
        w->looked = w->low;
    for (; w->looked + lag < chunk; w->looked++) {
        const uint32_t number = (uint32_t)(w->looked & w->slot_mask);
        if (w->slots[number].state == SLOT_FLIGHT && w->slots[number].next == w->looked)
            w->stats.overtaken += send_again(w, number, 0);
    }
}

static void take_result(struct worker *w, uint32_t number, const uint8_t *payload, int64_t now)
{
    struct slot *slot = &w->slots[number];
    const uint64_t chunk = slot->next;
    struct call *call = call_of(w, chunk);
    const uint64_t index = chunk - call->base, lead = call->lead, tag = call->tag;
    const int scaled = call->kind == WORKER_SCALED && index < call->chunks;
    w->stats.results++;
    w->stats.overflowed += payload[1] & WEFT_ALLREDUCE_OVERFLOW ? 1 : 0;
    if (has_data(call, index)) {
        get_lanes(w->lanes, payload + WEFT_ALLREDUCE_BYTES, w->config.lanes);
        w->calls.take(w->owner, tag, (uint32_t)(index - lead), w->lanes);
    }
    if (scaled)
        w->calls.agree(w->owner, tag, (uint32_t)index, payload[12]);
    slot->state = SLOT_IDLE;
    slot->both = 0;
    slot->repeated = (uint8_t)(slot->repeated << 1 & 2);
    slot->next += w->config.slots;
    w->flying--;
    while (w->low < w->end && has_result(w, w->low))
        w->low++;
    if (w->config.best_effort)
        repeat_overtaken(w, chunk);
    follow_marks(w, chunk, payload[1] & WEFT_ALLREDUCE_CONGESTION ? 1 : 0);
    hear(w, now);
    const int last = !--call->left;
    while (w->n_calls && !w->ring[w->first_call].left) {
        w->first_call = (w->first_call + 1) % WORKER_CALLS;
        w->n_calls--;
    }
    consider(w, number);
    if (lead && lead != w->config.slots && w->slots[(chunk + lead) & w->slot_mask].next == chunk + lead)
        consider(w, (uint32_t)((chunk + lead) & w->slot_mask));
    pump(w, now);
    if (!w->flying && w->armed != WORKER_NEVER) {
        w->armed = WORKER_NEVER; /* nothing is waited for */
        w->calls.set_timer(w->owner, WORKER_NEVER);
    }
    if (last)
        w->calls.done(w->owner, tag);
}

void worker_receive(struct worker *w, const uint8_t *payload, uint32_t length, int64_t now)
{
    if (length < WEFT_ALLREDUCE_BYTES || get16(payload + 2) != w->config.job ||
        (payload[0] != WEFT_ALLREDUCE_RESULT && payload[0] != WEFT_ALLREDUCE_MOVE)) {
        w->stats.malformed++;
        return;
    }
    if (payload[0] == WEFT_ALLREDUCE_MOVE) {
        if (!w->config.best_effort)
            hear_move(w, payload[1], (uint16_t)get16(payload + 4), now);
        return;
    }
    const uint32_t place = get16(payload + 6), number = place & 0x7fff, lanes = get16(payload + 14);
    if (number >= w->config.slots) {
        w->stats.malformed++;
        return;
    }
    struct slot *slot = &w->slots[number];
    if (slot->state != SLOT_FLIGHT || place >> 15 != version_of(w, slot->next) || get32(payload + 8) != (uint32_t)slot->next) {
        hear_late(w, slot, place, get32(payload + 8), now);
        return;
    }
    /* As many lanes as it asked for, and they are here. */
    if (lanes != get16(packet_of(w, number, place >> 15) + 14) ||
        (lanes && length < WEFT_ALLREDUCE_BYTES + 4 * w->config.lanes)) {
        w->stats.malformed++;
        return;
    }
    take_result(w, number, payload, now);
}

/* --- time-outs ------------------------------------------------------------------------------------------ */

/* Nothing has come for a whole time-out: the next one is longer. Returns whether the job is to move. The limit is random,
 * as time-outs are: of many workers that hear nothing, few are to begin the same move. */
static int fall_silent(struct worker *w, int64_t now)
{
    if (now - w->raised < w->limit)
        return 0;
    w->raised = now;
    w->level += w->level < WORKER_BACKOFF;
    w->limit = timeout(w);
    return w->config.patience && ++w->silent >= w->config.patience;
}

void worker_timer(struct worker *w, int64_t now)
{
    if (now < w->armed)
        return;
    w->armed = WORKER_NEVER;
    uint32_t first = 0;
    while (first < w->config.slots && (w->slots[first].state != SLOT_FLIGHT || w->slots[first].deadline > now))
        first++;
    if (first < w->config.slots && fall_silent(w, now)) {
        w->stats.moves++;
        w->mover = 1;
        w->epoch++;
        send_move(w); /* first, so that others learn of it before what they have is refused */
        go_on_to(w, w->epoch, now);
        return;
    }
    if (w->stretch && now - w->stretched >= timeout_now(w) << STRETCH_SHIFT) {
        w->stretch--;
        w->stretched = now;
    }
    int64_t soonest = WORKER_NEVER;
    int moving = 0;
    for (uint32_t i = 0; i < w->config.slots; i++) {
        struct slot *slot = &w->slots[i];
        if (slot->state != SLOT_FLIGHT)
            continue;
        if (slot->deadline <= now) {
            if (slot->both && w->mover && !moving++)
                send_move(w);
            w->stats.repeated += send_again(w, i, slot->both);
            if (!(slot->repeated & 1) && ++w->repeats >= REPEATS_MOST) {
                w->repeats /= 2;
                w->spurious /= 2;
            }
            slot->repeated |= 1;
            slot->deadline = now + timeout(w);
        }
        if (slot->deadline < soonest)
            soonest = slot->deadline;
    }
    arm(w, soonest);
}

/* --- what it says of itself ------------------------------------------------------------------------------- */

const struct worker_stats *worker_stats_of(const struct worker *w)
{
    return &w->stats;
}

uint32_t worker_window(const struct worker *w)
{
    return w->window;
}

uint32_t worker_epoch(const struct worker *w)
{
    return w->epoch;
}

uint32_t worker_open(const struct worker *w)
{
    return w->n_calls;
}

int64_t worker_heard(const struct worker *w)
{
    return w->heard;
}
