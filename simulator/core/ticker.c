/* Owns tickers: equal packets into a port of a switch, tick k at start + k * period exactly.
 *
 * A switch is brought to the time of a tick, with all that arrives at that instant, and then takes the packet in. What
 * others send in the same window arrives behind it (engine.h), so that no other switch and no host need be looked at.
 * Ticks are no work: they keep no run to the end from its end.
 */
#include <stdlib.h>
#include <string.h>

#include "engine.h"

static const ws_time PERIOD_LEAST = 1000; /* shorter ones would be nothing but events */
/* A run to the end in which no host has done anything for so long comes to nothing, though its switches tick: at least
 * a tenth of a second, and the delays of so many hops. */
static const ws_time PATIENCE = 100000000000;
enum { PATIENCE_HOPS = 200 };
static const ws_time WINDOW_MOST = 1000000000; /* so that a budget is looked at where no link bounds a window */

struct ticker {
    ws_time next; /* tick */
    ws_time period;
    uint32_t node, port;
    uint32_t sibling; /* the next one of its switch, NONE: the last */
    uint32_t length;
    uint8_t first;    /* of its switch */
    uint8_t *data;
    uint64_t ticks, missed;
};

struct tickers {
    struct ticker *rows;
    size_t n, capacity;
    uint8_t over;          /* none ticks any more in this run */
    uint64_t heard;        /* packets that hosts had received for themselves when last looked at */
    ws_time quiet_until;   /* until when hosts may yet hear something; -1: they are at work */
};

static struct ticker *first_of(struct tickers *tickers, uint32_t node)
{
    for (size_t i = 0; i < tickers->n; i++)
        if (tickers->rows[i].node == node && tickers->rows[i].first)
            return &tickers->rows[i];
    return NULL;
}

/* Of a switch's tickers that have the same time the one that was added first comes first. */
static void append(struct tickers *tickers, struct ticker *ticker, uint32_t number)
{
    struct ticker *at = first_of(tickers, ticker->node);
    ticker->first = !at;
    while (at && at->sibling != NONE)
        at = &tickers->rows[at->sibling];
    if (at)
        at->sibling = number;
}

static int check(struct sim *s, const struct sim_ticker *config)
{
    if (config->node >= s->n_nodes || !s->nodes[config->node].sw)
        return sim_fail(s, SIM_ENOENT, "a ticker needs a switch: node %u is none", config->node);
    const struct node *node = &s->nodes[config->node];
    if (config->port > UINT16_MAX || (config->port < node->n_ends && node->ends[config->port].out))
        return sim_fail(s, SIM_EINVAL, "port %u of node %u has a link, or is above 65535: no ticker's", config->port, config->node);
    if (config->period_ps < PERIOD_LEAST || config->period_ps > WS_DELAY_MAX || config->start_ps < 0 || config->start_ps > WS_DELAY_MAX)
        return sim_fail(s, SIM_EINVAL, "a ticker's period is at least %lld ps, not %lld, and its start is not negative",
                        (long long)PERIOD_LEAST, (long long)config->period_ps);
    if (config->length < ETHERNET || config->length > SIM_TICKER_BYTES)
        return sim_fail(s, SIM_EINVAL, "a ticker's packet has %d to %d bytes, not %u", ETHERNET, SIM_TICKER_BYTES, config->length);
    return SIM_OK;
}

static ws_time after(ws_time time, ws_time period) { return time > WS_NEVER - period ? WS_NEVER : time + period; }

/* The first tick that is not before `now`; those before it are left out. */
static void skip_to(struct ticker *ticker, ws_time now)
{
    if (ticker->next >= now)
        return;
    const ws_time ticks = (now - ticker->next + ticker->period - 1) / ticker->period;
    ticker->missed += (uint64_t)ticks;
    ticker->next += (ticks - 1) * ticker->period;
    ticker->next = after(ticker->next, ticker->period);
}

static void find_next(struct sim *s)
{
    s->tickers_next = WS_NEVER;
    for (size_t i = 0; i < s->tickers->n; i++)
        if (s->tickers->rows[i].next < s->tickers_next)
            s->tickers_next = s->tickers->rows[i].next;
}

int sim_add_ticker(sim *s, const struct sim_ticker *config)
{
    const int status = check(s, config);
    if (status)
        return status;
    if (!s->tickers && !(s->tickers = calloc(1, sizeof *s->tickers)))
        return sim_fail(s, SIM_ENOMEM, "no memory for tickers");
    struct tickers *tickers = s->tickers;
    uint8_t *data = malloc(config->length);
    if (!data || !room((void **)&tickers->rows, tickers->n, &tickers->capacity, sizeof *tickers->rows)) {
        free(data);
        return sim_fail(s, SIM_ENOMEM, "no memory for another ticker");
    }
    memcpy(data, config->data, config->length);
    struct ticker *ticker = &tickers->rows[tickers->n];
    *ticker = (struct ticker){
        .next = config->start_ps,
        .period = config->period_ps,
        .node = config->node,
        .port = config->port,
        .sibling = NONE,
        .length = config->length,
        .data = data,
    };
    skip_to(ticker, s->now);
    ticker->missed = 0;
    append(tickers, ticker, (uint32_t)tickers->n);
    tickers->n++;
    tickers->quiet_until = -1;
    find_next(s);
    return (int)tickers->n - 1;
}

void tickers_free(struct sim *s)
{
    for (size_t i = 0; s->tickers && i < s->tickers->n; i++)
        free(s->tickers->rows[i].data);
    if (s->tickers)
        free(s->tickers->rows);
    free(s->tickers);
}

int sim_ticker_stats_get(const sim *s, uint32_t number, struct sim_ticker_stats *stats)
{
    if (!s->tickers || number >= s->tickers->n)
        return SIM_ENOENT;
    const struct ticker *ticker = &s->tickers->rows[number];
    *stats = (struct sim_ticker_stats){ticker->ticks, ticker->missed, ticker->next};
    return SIM_OK;
}

/* --- running ----------------------------------------------------------------------------------- */

static void tick(struct sim *s, struct ticker *ticker)
{
    const struct node *node = &s->nodes[ticker->node];
    const ws_time now = ticker->next;
    ticker->next = after(now, ticker->period);
    if (!node->alive) {
        ticker->missed++;
        return;
    }
    if (s->switch_next[node->turn] <= now)
        switch_run(s, ticker->node, now);
    if (now > s->latest)
        s->latest = now;
    s->totals.events++;
    ticker->ticks++;
    struct ws_packet_in packet = {.port = ticker->port, .length = ticker->length, .data = ticker->data, .at = now};
    ws_inject(node->sw, &packet, 1, now);
    switch_refresh(s, ticker->node);
}

static struct ticker *next_of(struct tickers *tickers, struct ticker *at)
{
    struct ticker *next = at;
    while (at->sibling != NONE) {
        at = &tickers->rows[at->sibling];
        if (at->next < next->next)
            next = at;
    }
    return next;
}

void tickers_run(struct sim *s, ws_time last)
{
    struct tickers *tickers = s->tickers;
    for (size_t i = 0; i < tickers->n; i++) {
        if (!tickers->rows[i].first)
            continue;
        for (struct ticker *next; (next = next_of(tickers, &tickers->rows[i]))->next <= last && !s->short_of;)
            tick(s, next);
    }
    find_next(s);
}

/* --- the end of a run to the end --------------------------------------------------------------- */

static int all_has_been_sent(const struct sim *s)
{
    return work_state(s) != ELEMENT_OPEN && !s->works && !s->raws;
}

static ws_time patience(const struct sim *s)
{
    ws_time longest = 0;
    for (uint32_t i = 0; i < s->n_links; i++)
        for (int end = 0; end < 2; end++) {
            const uint32_t node = s->links[i]->node[end];
            const ws_time delay = s->nodes[node].ops->delay(s, node, s->links[i]->port[end]);
            if (delay > longest)
                longest = delay;
        }
    longest = longest > WS_DELAY_MAX / PATIENCE_HOPS ? WS_DELAY_MAX : longest * PATIENCE_HOPS;
    return longest > PATIENCE ? longest : PATIENCE;
}

/* Hosts have neither anything to do nor received anything for themselves for longer than anything is on its way. */
static int hosts_are_done(struct sim *s)
{
    struct tickers *tickers = s->tickers;
    const uint64_t heard = s->totals.received - s->totals.received_other;
    if (s->heap_n || s->timers_n || heard != tickers->heard) {
        tickers->heard = heard;
        tickers->quiet_until = -1;
        return 0;
    }
    if (tickers->quiet_until < 0)
        tickers->quiet_until = after(s->now, patience(s));
    return s->now > tickers->quiet_until;
}

ws_time tickers_window(ws_time next, ws_time last)
{
    return last - next > WINDOW_MOST ? next + WINDOW_MOST : last;
}

ws_time tickers_due(struct sim *s, int to_the_end, ws_time until)
{
    struct tickers *tickers = s->tickers;
    if (to_the_end && (all_has_been_sent(s) || (until == WS_NEVER && hosts_are_done(s)))) {
        tickers->over = 1;
        return WS_NEVER;
    }
    if (tickers->over) {
        tickers->over = 0;
        for (size_t i = 0; i < tickers->n; i++)
            skip_to(&tickers->rows[i], s->now);
        find_next(s);
    }
    return s->tickers_next;
}
