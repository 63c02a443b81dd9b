/* Owns collectives whose messages are made as they are due: rings and all-to-alls, by their patterns.
 *
 * A message that nothing waits for yet is arithmetic. It becomes a `struct message` behind those that were added one by one
 * when all that it waits for but its rank's barrier is done, and its place is used again when it has arrived. What it
 * waits for, and the order in which messages that become ready at one instant do so, is that of workloads/collectives.py:
 * by number, which is (channel, step, rank) in a ring and (step, channel, rank) in an all-to-all.
 */
#include "engine.h"

#include <stdlib.h>
#include <string.h>

enum { SPREAD_BITS = 7, SPREAD_PAGE = 1 << SPREAD_BITS, SPREAD_PAGES = 64 - SPREAD_BITS };
_Static_assert(SPREAD_PAGES * SPREAD_PAGE == SIM_SPREAD_ROWS, "values have at most 63 bits");

/* How often values came, exactly below 128 and else by their highest eight bits: a page for each power of two. */
struct spread {
    uint32_t *pages[SPREAD_PAGES];
};

struct pattern {
    struct sim_pattern config;
    uint64_t messages;
    uint32_t *flows;
    ws_time *ideal;
};

struct collective {
    const struct pattern *pattern;
    uint32_t *after; /* n_after rows of a message by rank */
    uint32_t n_after;
    uint8_t *begun;                             /* by rank: its barrier is done */
    struct blocked { uint32_t first, last; } *blocked; /* by rank: messages that wait for it alone, by number; NONE: none */
    struct sim_collective_stats stats;
    struct spread spreads[2]; /* of enum sim_spread_of */
};

struct collectives {
    struct pattern **patterns;
    uint32_t n_patterns, patterns_capacity;
    struct collective **all;
    uint32_t n, capacity;
    struct head { uint32_t collective, rank; } *heads; /* by message: + 1, what begins when it is done; 0: nothing */
    struct sim_flow_messages *flows;
    uint32_t n_flows;
    uint32_t free; /* a place that may be used again, and so on by next_open; NONE: none */
    uint64_t capacity_messages;
};

static struct collectives *collectives_of(struct sim *s)
{
    if (!s->collectives && (s->collectives = calloc(1, sizeof *s->collectives)))
        s->collectives->free = NONE;
    return s->collectives;
}

static void spread_free(struct spread *spread)
{
    for (int i = 0; i < SPREAD_PAGES; i++)
        free(spread->pages[i]);
}

static void pattern_free(struct pattern *pattern)
{
    free(pattern->flows);
    free(pattern->ideal);
    free(pattern);
}

static void collective_free(struct collective *collective)
{
    free(collective->after);
    free(collective->begun);
    free(collective->blocked);
    spread_free(&collective->spreads[0]);
    spread_free(&collective->spreads[1]);
    free(collective);
}

void collectives_free(struct sim *s)
{
    struct collectives *c = s->collectives;
    if (!c)
        return;
    for (uint32_t i = 0; i < c->n_patterns; i++)
        pattern_free(c->patterns[i]);
    for (uint32_t i = 0; i < c->n; i++)
        collective_free(c->all[i]);
    free(c->patterns);
    free(c->all);
    free(c->heads);
    free(c->flows);
    free(c);
}

/* Room for one more pointer. */
static int one_more(void **array, uint32_t n, uint32_t *capacity)
{
    size_t wide = *capacity;
    const int there = n < UINT32_MAX / 2 && room(array, n, &wide, sizeof(void *));
    *capacity = (uint32_t)wide;
    return there;
}

/* --- patterns -------------------------------------------------------------------------------------- */

static int check_pattern(struct sim *s, const struct sim_pattern *p)
{
    if (p->kind > SIM_DIRECT || p->ranks < 2 || !p->channels || !p->steps)
        return sim_fail(s, SIM_EINVAL, "a pattern needs a kind, two ranks, a channel and a step");
    if (p->kind == SIM_DIRECT && (!p->at_once || p->at_once > p->steps || !p->stride ||
                                  1 + (uint64_t)(p->steps - 1) * p->stride >= p->ranks))
        return sim_fail(s, SIM_EINVAL, "a pattern sends to %u of %u ranks, %u at once", p->steps, p->ranks, p->at_once);
    const uint64_t parts = p->kind == SIM_RING ? p->ranks : p->steps;
    if (p->bytes / p->channels / parts == 0 || p->bytes > INT64_MAX)
        return sim_fail(s, SIM_EINVAL, "a pattern has messages without bytes");
    if ((uint64_t)p->steps * p->channels > UINT32_MAX / p->ranks)
        return sim_fail(s, SIM_EINVAL, "a pattern has more than 4 294 967 295 messages");
    return SIM_OK;
}

int sim_add_pattern(sim *s, const struct sim_pattern *config, const uint32_t *flows, const ws_time *ideal_ps)
{
    const int status = check_pattern(s, config);
    if (status)
        return status;
    struct collectives *c = collectives_of(s);
    const size_t each = (size_t)config->channels * config->ranks;
    const size_t n = config->kind == SIM_RING ? each : each * config->steps;
    const size_t n_ideal = config->kind == SIM_RING ? 2 * each : n;
    for (size_t i = 0; i < n; i++)
        if (flows[i] >= s->n_flows)
            return sim_fail(s, SIM_EINVAL, "a pattern: there is no flow %u", flows[i]);
        else if (!stripes_take(s->flows[flows[i]]))
            return sim_fail(s, SIM_EINVAL, "a pattern: flow %u is not the first of those that it is striped over", flows[i]);
    struct pattern *pattern = calloc(1, sizeof *pattern);
    if (!c || !pattern || !(pattern->flows = malloc(n * sizeof *flows)) ||
        !(pattern->ideal = malloc(n_ideal * sizeof *ideal_ps)) ||
        !one_more((void **)&c->patterns, c->n_patterns, &c->patterns_capacity)) {
        if (pattern)
            pattern_free(pattern);
        return sim_fail(s, SIM_ENOMEM, "no memory for a pattern of %zu flows", n);
    }
    pattern->config = *config;
    pattern->messages = each * config->steps;
    memcpy(pattern->flows, flows, n * sizeof *flows);
    memcpy(pattern->ideal, ideal_ps, n_ideal * sizeof *ideal_ps);
    c->patterns[c->n_patterns] = pattern;
    return (int)c->n_patterns++;
}

/* A message by its number within the collective. */
struct at {
    uint32_t channel, step, rank;
};

static struct at at_of(const struct sim_pattern *p, uint64_t local)
{
    const uint32_t rank = (uint32_t)(local % p->ranks);
    const uint64_t row = local / p->ranks;
    if (p->kind == SIM_RING)
        return (struct at){(uint32_t)(row / p->steps), (uint32_t)(row % p->steps), rank};
    return (struct at){(uint32_t)(row % p->channels), (uint32_t)(row / p->channels), rank};
}

static uint64_t local_of(const struct sim_pattern *p, struct at at)
{
    const uint64_t row = p->kind == SIM_RING ? (uint64_t)at.channel * p->steps + at.step : (uint64_t)at.step * p->channels + at.channel;
    return row * p->ranks + at.rank;
}

static uint32_t target_of(const struct sim_pattern *p, struct at at)
{
    const uint64_t ahead = p->kind == SIM_RING ? 1 : 1 + (uint64_t)at.step * p->stride;
    return (uint32_t)((at.rank + ahead) % p->ranks);
}

/* The part `i` of `size` bytes cut into `parts` that differ by at most one byte. */
static uint64_t piece(uint64_t size, uint64_t parts, uint64_t i) { return size / parts + (i < size % parts); }

static uint64_t bytes_of(const struct sim_pattern *p, struct at at)
{
    if (p->kind == SIM_DIRECT)
        return piece(piece(p->bytes, p->steps, at.step), p->channels, at.channel);
    const uint64_t part = (at.rank + (uint64_t)p->ranks - at.step % p->ranks) % p->ranks;
    return piece(piece(p->bytes, p->channels, at.channel), p->ranks, part);
}

/* Its place in the pattern's flows. */
static size_t flow_at(const struct sim_pattern *p, struct at at)
{
    return p->kind == SIM_RING ? (size_t)at.channel * p->ranks + at.rank : local_of(p, at);
}

static ws_time ideal_of(const struct pattern *pattern, struct at at, uint64_t bytes)
{
    const struct sim_pattern *p = &pattern->config;
    const size_t each = (size_t)p->channels * p->ranks;
    if (p->kind == SIM_DIRECT)
        return pattern->ideal[flow_at(p, at)];
    return pattern->ideal[flow_at(p, at) + (bytes > piece(p->bytes, p->channels, at.channel) / p->ranks ? each : 0)];
}

/* --- collectives ----------------------------------------------------------------------------------- */

static int check_collective(struct sim *s, uint32_t pattern, const uint32_t *heads, const uint32_t *after, uint32_t n_after)
{
    struct collectives *c = collectives_of(s);
    if (!c || pattern >= c->n_patterns)
        return sim_fail(s, SIM_EINVAL, "there is no pattern %u", pattern);
    const uint32_t ranks = c->patterns[pattern]->config.ranks;
    const uint64_t stored = c->n ? s->n_stored : s->n_messages;
    for (uint32_t i = 0; i < ranks; i++)
        if (heads[i] < s->n_started || heads[i] >= stored || (c->heads && c->heads[heads[i]].collective))
            return sim_fail(s, SIM_EINVAL, "rank %u begins with message %u, which is not held or begins another", i, heads[i]);
    for (uint64_t i = 0; i < (uint64_t)n_after * ranks; i++)
        if (after[i] < s->n_started || after[i] >= stored || !s->messages[after[i]].waits)
            return sim_fail(s, SIM_EINVAL, "message %u can't wait for a collective: it is not held, or waits for nothing", after[i]);
    return SIM_OK;
}

static struct collective *collective_new(const struct pattern *pattern, const uint32_t *after, uint32_t n_after)
{
    const uint32_t ranks = pattern->config.ranks;
    struct collective *found = calloc(1, sizeof *found);
    if (!found)
        return NULL;
    const size_t behind = (size_t)n_after * ranks;
    found->pattern = pattern;
    found->n_after = n_after;
    found->after = malloc((behind + 1) * sizeof *after);
    found->begun = calloc(ranks, 1);
    found->blocked = malloc(ranks * sizeof *found->blocked);
    if (!found->after || !found->begun || !found->blocked) {
        collective_free(found);
        return NULL;
    }
    memcpy(found->after, after, behind * sizeof *after);
    for (uint32_t i = 0; i < ranks; i++)
        found->blocked[i] = (struct blocked){NONE, NONE};
    found->stats = (struct sim_collective_stats){.messages = pattern->messages, .first_ready = -1, .last_done = -1};
    return found;
}

/* What all collectives need, when the first one comes. */
static int prepare(struct sim *s)
{
    struct collectives *c = s->collectives;
    if (c->heads)
        return 1;
    c->heads = calloc(s->n_messages + 1, sizeof *c->heads);
    c->flows = malloc(((size_t)s->n_flows + 1) * sizeof *c->flows);
    if (!c->heads || !c->flows)
        return 0;
    for (uint32_t i = 0; i < s->n_flows; i++)
        c->flows[i] = (struct sim_flow_messages){0, -1, -1};
    c->n_flows = s->n_flows;
    c->capacity_messages = s->n_messages;
    s->n_stored = s->n_messages;
    return 1;
}

int sim_add_collective(sim *s, uint32_t pattern, const uint32_t *heads, const uint32_t *after, uint32_t n_after)
{
    const int status = check_collective(s, pattern, heads, after, n_after);
    if (status)
        return status;
    struct collectives *c = s->collectives;
    const struct sim_pattern *p = &c->patterns[pattern]->config;
    if (c->flows && c->n_flows != s->n_flows)
        return sim_fail(s, SIM_EINVAL, "collectives are added behind all flows");
    struct collective *made = collective_new(c->patterns[pattern], after, n_after);
    if (!made || !prepare(s) || !one_more((void **)&c->all, c->n, &c->capacity)) {
        if (made)
            collective_free(made);
        return sim_fail(s, SIM_ENOMEM, "no memory for a collective of %u ranks", p->ranks);
    }
    c->all[c->n] = made;
    for (uint32_t rank = 0; rank < p->ranks; rank++)
        c->heads[heads[rank]] = (struct head){c->n + 1, rank};
    /* A rank is through when the last it sends and the last it receives are done: one each of a ring's channel, else all. */
    const uint32_t ends = 2 * p->channels * (p->kind == SIM_RING ? 1 : p->steps);
    for (size_t i = 0; i < (size_t)n_after * p->ranks; i++)
        s->messages[after[i]].waits += ends;
    s->totals.messages += made->pattern->messages;
    return (int)c->n++;
}

/* --- messages that are due ------------------------------------------------------------------------- */

/* A place for one more message. NONE: no memory. */
static uint32_t place_new(struct sim *s)
{
    struct collectives *c = s->collectives;
    if (c->free != NONE) {
        const uint32_t place = c->free;
        c->free = (uint32_t)s->messages[place].next_open;
        return place;
    }
    if (s->n_messages == c->capacity_messages) {
        const uint64_t bigger = c->capacity_messages + c->capacity_messages / 2 + 1024;
        struct message *moved = bigger < NONE ? realloc(s->messages, bigger * sizeof *moved) : NULL;
        if (!moved) {
            sim_short(s, "messages of collectives");
            return NONE;
        }
        s->messages = moved;
        c->capacity_messages = bigger;
    }
    s->messages[s->n_messages].generation = 0;
    return (uint32_t)s->n_messages++;
}

/* Whoever still knows it by number and generation finds that it is gone. */
static void place_free(struct sim *s, uint32_t place)
{
    struct message *message = &s->messages[place];
    message->generation++;
    message->next_open = s->collectives->free;
    s->collectives->free = place;
}

static uint32_t make(struct sim *s, uint32_t number, struct at at)
{
    const struct pattern *pattern = s->collectives->all[number]->pattern;
    const uint32_t place = place_new(s);
    if (place == NONE)
        return NONE;
    struct message *message = &s->messages[place];
    const uint32_t flow = pattern->flows[flow_at(&pattern->config, at)];
    const uint64_t bytes = bytes_of(&pattern->config, at);
    *message = (struct message){
        .flow = flow,
        .bytes = bytes,
        .to_arrive = bytes,
        .dependents = local_of(&pattern->config, at),
        .n_dependents = number,
        .generation = message->generation,
        .packets = message_packets(s->flows[flow], bytes),
        .next_open = -1,
        .times = {-1, -1, -1, -1},
    };
    return place;
}

static void make_ready(struct sim *s, uint32_t number, struct at at)
{
    const uint32_t place = make(s, number, at);
    if (place != NONE)
        message_ready(s, place);
}

/* It has all that it waits for but its rank's barrier. */
static void block(struct sim *s, uint32_t number, struct at at)
{
    struct blocked *list = &s->collectives->all[number]->blocked[at.rank];
    const uint32_t place = make(s, number, at);
    if (place == NONE)
        return;
    const uint64_t local = s->messages[place].dependents;
    uint32_t before = NONE, behind = list->first;
    if (list->last != NONE && s->messages[list->last].dependents < local) {
        before = list->last;
        behind = NONE;
    }
    for (; behind != NONE && s->messages[behind].dependents < local; behind = (uint32_t)s->messages[behind].next_open)
        before = behind;
    s->messages[place].next_open = behind;
    if (before == NONE)
        list->first = place;
    else
        s->messages[before].next_open = place;
    if (behind == NONE)
        list->last = place;
}

static void begin_ring(struct sim *s, uint32_t number, uint32_t rank)
{
    struct collective *collective = s->collectives->all[number];
    const struct sim_pattern *p = &collective->pattern->config;
    uint32_t waiting = collective->blocked[rank].first;
    collective->blocked[rank] = (struct blocked){NONE, NONE};
    for (uint32_t channel = 0; channel < p->channels; channel++) {
        make_ready(s, number, (struct at){channel, 0, rank});
        while (waiting != NONE && at_of(p, s->messages[waiting].dependents).channel == channel) {
            const uint32_t next = (uint32_t)s->messages[waiting].next_open;
            s->messages[waiting].next_open = -1;
            message_ready(s, waiting);
            waiting = next;
        }
    }
}

void collective_begin(struct sim *s, uint64_t barrier)
{
    const struct head head = s->collectives->heads[barrier];
    if (!head.collective)
        return;
    const uint32_t number = head.collective - 1;
    struct collective *collective = s->collectives->all[number];
    const struct sim_pattern *p = &collective->pattern->config;
    collective->begun[head.rank] = 1;
    if (p->kind == SIM_RING) {
        begin_ring(s, number, head.rank);
        return;
    }
    for (uint32_t step = 0; step < p->at_once; step++)
        for (uint32_t channel = 0; channel < p->channels; channel++)
            make_ready(s, number, (struct at){channel, step, head.rank});
}

void collective_ready(struct sim *s, uint64_t number)
{
    struct collectives *c = s->collectives;
    const struct message *message = &s->messages[number];
    struct sim_collective_stats *stats = &c->all[message->n_dependents]->stats;
    struct sim_flow_messages *flow = &c->flows[message->flow];
    if (stats->first_ready < 0)
        stats->first_ready = s->now;
    if (flow->first_ready < 0)
        flow->first_ready = s->now;
}

static uint32_t *spread_count(struct sim *s, struct spread *spread, uint64_t value)
{
    const int power = value < SPREAD_PAGE ? SPREAD_BITS - 1 : 63 - __builtin_clzll(value);
    uint32_t **page = &spread->pages[power - (SPREAD_BITS - 1)];
    if (!*page && !(*page = calloc(SPREAD_PAGE, sizeof **page))) {
        sim_short(s, "statistics of collectives");
        return NULL;
    }
    return *page + (value < SPREAD_PAGE ? value : value >> (power - SPREAD_BITS) & (SPREAD_PAGE - 1));
}

static void sum_add(struct sim *s, struct collective *collective, enum sim_spread_of of, unsigned __int128 wide)
{
    const uint64_t value = wide < INT64_MAX ? (uint64_t)wide : INT64_MAX;
    struct sim_sum *sum = &collective->stats.sums[of];
    sum->high += value >> 32;
    sum->low += value & UINT32_MAX;
    if (value > sum->most)
        sum->most = value;
    uint32_t *count = spread_count(s, &collective->spreads[of], value);
    if (count)
        ++*count;
}

static void note_done(struct sim *s, struct collective *collective, const struct message *message, struct at at)
{
    struct sim_flow_messages *flow = &s->collectives->flows[message->flow];
    const uint64_t took = (uint64_t)(message->times.done - message->times.ready);
    const ws_time ideal = ideal_of(collective->pattern, at, message->bytes);
    flow->done++;
    flow->last_done = message->times.done;
    collective->stats.done++;
    collective->stats.last_done = message->times.done;
    sum_add(s, collective, SIM_COMPLETION, took);
    if (ideal > 0)
        sum_add(s, collective, SIM_SLOWDOWN, (unsigned __int128)took * 1000000 / (uint64_t)ideal);
}

static void through(struct sim *s, const struct collective *collective, struct at at)
{
    const struct sim_pattern *p = &collective->pattern->config;
    const uint32_t target = target_of(p, at);
    for (uint32_t i = 0; i < collective->n_after; i++) {
        const uint32_t *after = collective->after + (size_t)i * p->ranks;
        message_waits_less(s, after[at.rank]);
        message_waits_less(s, after[target]);
    }
}

void collective_done(struct sim *s, uint64_t place)
{
    const struct message *message = &s->messages[place];
    const uint32_t number = message->n_dependents;
    struct collective *collective = s->collectives->all[number];
    const struct sim_pattern *p = &collective->pattern->config;
    struct at at = at_of(p, message->dependents);
    note_done(s, collective, message, at);
    /* What is still to be sent though all of it has come, of packets that were forged, keeps its place. */
    if (message->times.last_sent >= 0 || s->flows[message->flow]->config.transport)
        place_free(s, (uint32_t)place);
    if (p->kind == SIM_DIRECT) {
        if (at.step + p->at_once < p->steps)
            make_ready(s, number, (struct at){at.channel, at.step + p->at_once, at.rank});
        through(s, collective, at);
    } else if (at.step + 1 < p->steps) {
        at = (struct at){at.channel, at.step + 1, target_of(p, at)};
        if (collective->begun[at.rank])
            make_ready(s, number, at);
        else
            block(s, number, at);
    } else {
        through(s, collective, at);
    }
}

void collective_unlink(struct sim *s, struct flow *flow, uint64_t number)
{
    int64_t before = -1, at = flow->open_head;
    while (at >= 0 && at != (int64_t)number) {
        before = at;
        at = s->messages[at].next_open;
    }
    if (at < 0)
        return; /* it was taken off the front */
    if (before < 0)
        flow->open_head = s->messages[at].next_open;
    else
        s->messages[before].next_open = s->messages[at].next_open;
    if (flow->open_tail == at)
        flow->open_tail = before;
}

/* --- what happened --------------------------------------------------------------------------------- */

int sim_collective_stats_get(sim *s, uint32_t first, uint32_t n, struct sim_collective_stats *stats)
{
    const uint32_t there = s->collectives ? s->collectives->n : 0;
    if (first > there || n > there - first)
        return sim_fail(s, SIM_ENOENT, "there are %u collectives", there);
    for (uint32_t i = 0; i < n; i++)
        stats[i] = s->collectives->all[first + i]->stats;
    return SIM_OK;
}

int sim_collective_spread_get(sim *s, uint32_t number, enum sim_spread_of of, struct sim_spread_row *rows)
{
    if (!s->collectives || number >= s->collectives->n || of > SIM_SLOWDOWN)
        return sim_fail(s, SIM_ENOENT, "there is no collective %u", number);
    const struct spread *spread = &s->collectives->all[number]->spreads[of];
    int n = 0;
    for (int power = 0; power < SPREAD_PAGES; power++)
        for (uint64_t i = 0; spread->pages[power] && i < SPREAD_PAGE; i++)
            if (spread->pages[power][i])
                rows[n++] = (struct sim_spread_row){power ? (SPREAD_PAGE + i) << (power - 1) : i, spread->pages[power][i]};
    return n;
}

int sim_flow_messages_get(sim *s, uint32_t first, uint32_t n, struct sim_flow_messages *rows)
{
    const uint32_t there = s->collectives ? s->collectives->n_flows : 0;
    if (first > there || n > there - first)
        return sim_fail(s, SIM_ENOENT, "collectives know of %u flows", there);
    memcpy(rows, s->collectives->flows + first, n * sizeof *rows);
    return SIM_OK;
}
