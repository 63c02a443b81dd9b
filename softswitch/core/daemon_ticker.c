/* Tickers: see daemon_ticker.h. */
#include "daemon_ticker.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    ETHERNET = 14,
    PORTS = 1 << 16,
    EXACT = 8,                       /* latenesses below so many ns have a count each, */
    BUCKETS = (63 - 3 + 1) * EXACT + EXACT, /* larger ones so many an octave */
    PS_PER_NS = 1000,
    PERCENT = 100,
};

struct wd_ticker {
    ws_time next; /* tick */
    struct wd_ticker_config config;
    uint64_t ticks, skipped;
    ws_time late_max;
    uint64_t late[BUCKETS];
    uint8_t data[];
};

/* --- how late -------------------------------------------------------------------------------- */

static uint32_t bucket_of(uint64_t ns)
{
    if (ns < EXACT)
        return (uint32_t)ns;
    const uint32_t top = 63 - (uint32_t)__builtin_clzll(ns);
    return (top - 2) * EXACT + (uint32_t)(ns >> (top - 3) & (EXACT - 1));
}

/* The largest value of a bucket. */
static uint64_t bucket_end(uint32_t bucket)
{
    if (bucket < EXACT)
        return bucket;
    return ((uint64_t)(EXACT + bucket % EXACT + 1) << (bucket / EXACT - 1)) - 1;
}

static ws_time percentile(const struct wd_ticker *ticker, uint64_t percent)
{
    const uint64_t wanted = (ticker->ticks * percent + PERCENT - 1) / PERCENT;
    uint64_t seen = 0;
    for (uint32_t i = 0; i < BUCKETS; i++) {
        seen += ticker->late[i];
        if (seen >= wanted && seen) {
            const ws_time end = (ws_time)bucket_end(i) * PS_PER_NS;
            return end < ticker->late_max ? end : ticker->late_max;
        }
    }
    return 0;
}

int wd_tickers_stats(const struct wd_tickers *tickers, uint32_t number, struct wd_ticker_stats *stats)
{
    if (number >= tickers->n)
        return -ENOENT;
    const struct wd_ticker *ticker = tickers->rows[number];
    *stats = (struct wd_ticker_stats){
        .port = ticker->config.port,
        .start_ps = ticker->config.start_ps,
        .period_ps = ticker->config.period_ps,
        .ticks = ticker->ticks,
        .skipped = ticker->skipped,
        .late_p50_ps = percentile(ticker, 50),
        .late_p99_ps = percentile(ticker, 99),
        .late_max_ps = ticker->late_max,
    };
    return 0;
}

/* --- adding ---------------------------------------------------------------------------------- */

void wd_tickers_init(struct wd_tickers *tickers) { *tickers = (struct wd_tickers){.next = WS_NEVER}; }

void wd_tickers_free(struct wd_tickers *tickers)
{
    for (uint32_t i = 0; i < tickers->n; i++)
        free(tickers->rows[i]);
    free(tickers->rows);
    wd_tickers_init(tickers);
}

int wd_tickers_use(const struct wd_tickers *tickers, uint32_t port)
{
    for (uint32_t i = 0; i < tickers->n; i++)
        if (tickers->rows[i]->config.port == port)
            return 1;
    return 0;
}

static void find_next(struct wd_tickers *tickers)
{
    tickers->next = WS_NEVER;
    for (uint32_t i = 0; i < tickers->n; i++)
        if (tickers->rows[i]->next < tickers->next)
            tickers->next = tickers->rows[i]->next;
}

/* The first of the grid that is not before `now`. */
static ws_time first_tick(const struct wd_ticker_config *config, ws_time now)
{
    if (config->start_ps >= now)
        return config->start_ps;
    return config->start_ps + (now - config->start_ps + config->period_ps - 1) / config->period_ps * config->period_ps;
}

static const char *wrong(const struct wd_ticker_config *config)
{
    if (config->port >= PORTS)
        return "the port is out of range";
    if (config->period_ps < WD_TICKER_PERIOD_PS || config->period_ps > WS_DELAY_MAX)
        return "a period is at least 10 us, in real time";
    if (config->start_ps < 0 || config->start_ps > WS_DELAY_MAX)
        return "the start is out of range";
    if (config->length < ETHERNET || config->length > WD_TICKER_BYTES)
        return "a packet has 14 to 1514 bytes";
    return NULL;
}

int wd_tickers_add(struct wd_tickers *tickers, const struct wd_ticker_config *config, ws_time now, char *error, size_t error_size)
{
    const char *reason = wrong(config);
    if (reason) {
        snprintf(error, error_size, "ticker at port %u: %s", config->port, reason);
        return -EINVAL;
    }
    struct wd_ticker **rows = realloc(tickers->rows, (tickers->n + 1) * sizeof *rows);
    if (!rows)
        return -ENOMEM;
    tickers->rows = rows;
    struct wd_ticker *ticker = calloc(1, sizeof *ticker + config->length);
    if (!ticker)
        return -ENOMEM;
    ticker->config = *config;
    memcpy(ticker->data, config->data, config->length);
    ticker->config.data = ticker->data;
    ticker->next = first_tick(config, now);
    rows[tickers->n++] = ticker;
    find_next(tickers);
    return (int)tickers->n - 1;
}

/* --- ticking --------------------------------------------------------------------------------- */

static struct wd_ticker *earliest(const struct wd_tickers *tickers)
{
    struct wd_ticker *first = tickers->rows[0];
    for (uint32_t i = 1; i < tickers->n; i++)
        if (tickers->rows[i]->next < first->next)
            first = tickers->rows[i];
    return first;
}

static void skip_what_is_too_late(struct wd_ticker *ticker, ws_time now)
{
    const ws_time behind = (now - ticker->next) / ticker->config.period_ps;
    if (behind < WD_TICKS_BEHIND)
        return;
    const ws_time skipped = behind - WD_TICKS_BEHIND + 1;
    ticker->skipped += (uint64_t)skipped;
    ticker->next += skipped * ticker->config.period_ps;
}

static void tick(struct wd_ticker *ticker, ws_switch *sw, ws_time now)
{
    skip_what_is_too_late(ticker, now);
    const ws_time due = ticker->next, late = now - due;
    ticker->next += ticker->config.period_ps;
    ticker->ticks++;
    ticker->late[bucket_of((uint64_t)late / PS_PER_NS)]++;
    if (late > ticker->late_max)
        ticker->late_max = late;
    struct ws_packet_in packet = {
        .port = ticker->config.port,
        .length = ticker->config.length,
        .data = ticker->data,
        .at = due,
    };
    ws_inject(sw, &packet, 1, due);
}

uint32_t wd_tickers_run(struct wd_tickers *tickers, ws_switch *sw, ws_time now, uint32_t most)
{
    uint32_t n = 0;
    for (; n < most && tickers->next <= now; n++) {
        tick(earliest(tickers), sw, now);
        find_next(tickers);
    }
    return n;
}
