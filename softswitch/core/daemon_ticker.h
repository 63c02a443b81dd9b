/* Tickers of the daemon: owns packets that come in at a period, and how late they were.
 *
 * Tick k is due at start + k * period of the switch's clock and enters with that time, however late the loop is: none is lost
 * and none drifts, unless the loop comes more than WD_TICKS_BEHIND ticks late.
 */
#ifndef WEFT_DAEMON_TICKER_H
#define WEFT_DAEMON_TICKER_H

#include "weft_switch.h"

struct wd_ticker;

struct wd_tickers {
    struct wd_ticker **rows;
    uint32_t n;
    ws_time next; /* tick; WS_NEVER: there are none */
};

void wd_tickers_init(struct wd_tickers *tickers);
void wd_tickers_free(struct wd_tickers *tickers);
/* The number, or -errno with the reason in `error`. The first tick is the first of its grid that is not before `now`. */
int wd_tickers_add(struct wd_tickers *tickers, const struct wd_ticker_config *config, ws_time now, char *error, size_t error_size);
/* Whether a ticker's packets come in by this port. */
int wd_tickers_use(const struct wd_tickers *tickers, uint32_t port);
/* Injects what is due at `now`, in the order of time, `most` at most. Returns how many. */
uint32_t wd_tickers_run(struct wd_tickers *tickers, ws_switch *sw, ws_time now, uint32_t most);
/* -ENOENT: there is none. */
int wd_tickers_stats(const struct wd_tickers *tickers, uint32_t number, struct wd_ticker_stats *stats);

#endif
