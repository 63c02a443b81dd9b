/* A congestion control of one's own: what a sender makes of what it hears of its path.
 *
 *    switch 1: "port 7, 100 Gb/s; at 4,210 ns it had sent 51,200 bytes; 8,192 wait" ----+
 *    switch 2: "port 3, ..." -----------------------------------------------------------+--> one acknowledgement --> rate, window
 *    how many bytes came, how long a round trip took -----------------------------------+
 *
 * One state is one queue pair. The card calls the functions below; they know no time but `now` (nanoseconds) and remember
 * nothing outside the state. Whole unsigned numbers only: the kernel runs the same header. It comes *beside* the installed
 * algorithms, so that every name here is yours: rename own_cc as you like, but not to one of theirs.
 *
 * Grade:  weft grade write-your-own-congestion-control --answer my_control.h
 * Run:    weft lab run write-your-own-congestion-control --answer my_control.h
 *
 * It compiles as it is, looks at every record and makes nothing of them: it sends at the line's rate. The numbered TODOs lead
 * to one algorithm that does well. Yours may be another one: what it does is graded, not how. README.md says what.
 */
#ifndef OWN_CC_H
#define OWN_CC_H

#include "path_telemetry.h"

#define OWN_CC_RATE_MAX ((weft_u64)1 << 42)       /* bits/s: products of a rate and 22 bits then fit 64 bits */
#define OWN_CC_ROUND_TRIP_MAX ((weft_u64)1 << 34) /* ns */
#define OWN_CC_SECOND_NS ((weft_u64)1000000000)
#define OWN_CC_ONE 65536u  /* loads are in 1/65536 of a line */
#define OWN_CC_ETA 62259u  /* 0.95: the load that is aimed at */
#define OWN_CC_PART 256    /* each step adds this part of the line */
#define OWN_CC_SILENT_NS ((weft_u64)1 << 22) /* ns of the fabric: 4 ms without a word */

/* The lab fills these four in, by these names; constants of your own are #defines. */
struct own_cc_params {
    weft_u64 line_rate;   /* bits/s, at most OWN_CC_RATE_MAX */
    weft_u64 min_rate;    /* bits/s, > 0 */
    weft_u64 base_rtt_ns; /* the fabric's longest round trip without queues; grows with the time scale */
    weft_u64 time_scale;  /* ns here for one of the fabric, in which switches count and rates of lines are, > 0 */
};

/* What a hop last said. */
struct own_cc_hop {
    weft_u32 at, sent; /* ns of the fabric, PATH_SENT_BYTES; both modulo PATH_WRAPS */
    weft_u32 hop;      /* its number; 0: nothing is known */
    weft_u32 queue;    /* PATH_QUEUE_BYTES */
};

struct own_cc {
    struct own_cc_params params;
    weft_u64 rate;       /* bits/s */
    weft_u64 used;       /* U: the load of the fullest hop, averaged, in 1 / OWN_CC_ONE */
    weft_u64 changed_at; /* ns, when the rate was last changed */
    weft_u64 heard_at;   /* ns, when switches last said something */
    struct own_cc_hop hops[PATH_HOPS_MOST];
};

/* Which events it takes, and what the card is to do for it (cc_event.h). The network follows: it marks for who hears CC_CNP,
 * sends fast CNPs to who hears CC_NOTIFIED, and switches write records for who wants CC_TELEMETRY. */
enum { own_cc_HEARS = 1 << CC_ACKED };
enum { own_cc_WANTS = CC_WINDOW | CC_RTT | CC_TELEMETRY };

static inline const char *own_cc_invalid(const struct own_cc_params *p)
{
    if (!p->line_rate || p->line_rate > OWN_CC_RATE_MAX)
        return "line_rate is from 1 to 2^42 bits/s";
    if (!p->min_rate || p->min_rate > p->line_rate)
        return "min_rate is from 1 to line_rate";
    if (!p->time_scale || p->time_scale >> 32)
        return "time_scale is from 1 to 2^32 - 1";
    if (p->base_rtt_ns < p->time_scale || p->base_rtt_ns > OWN_CC_ROUND_TRIP_MAX)
        return "base_rtt_ns is from 1 ns of the fabric to 2^34 ns";
    return 0;
}

static inline void own_cc_init(struct own_cc *s, const struct own_cc_params *params, weft_u64 now)
{
    s->params = *params;
    s->rate = params->line_rate;
    s->used = 0;
    s->changed_at = s->heard_at = now;
    for (int i = 0; i < PATH_HOPS_MOST; i++)
        s->hops[i] = (struct own_cc_hop){};
}

/* How much of its line `bits` in `ns` are, in 1 / OWN_CC_ONE; at most 64. */
static inline weft_u64 own_cc_load(weft_u64 bits, weft_u64 ns, weft_u64 line)
{
    weft_u64 load = bits * OWN_CC_SECOND_NS / (ns ? ns : 1) / (line >> 16 ? line >> 16 : 1);

    return load < 64 * OWN_CC_ONE ? load : 64 * OWN_CC_ONE;
}

/* Takes record `hop` of place `i`; `trip` is the base round trip in ns of the fabric. Returns the hop's load since its last record
 * and writes how long ago that was to `ns`, 0 where it is not known. */
static inline weft_u64 own_cc_take(struct own_cc *s, weft_u32 i, const struct path_hop *hop, weft_u64 trip, weft_u64 *ns)
{
    struct own_cc_hop *last = &s->hops[i];

    (void)last, (void)hop, (void)trip;
    *ns = 0;
    /* TODO 1: what the hop has sent since its last record (path_since), as a part of its line (own_cc_load), and remember the record.
     * Nothing is known of another hop than last time, of a hop that said nothing before, nor between two records of the same
     * nanosecond; a record that is older than the last one (more than half of PATH_WRAPS "later") is left alone. */
    /* TODO 2: and what waits there: queue / (line x trip) in addition. Of the two records' queues the smaller one, and where they are
     * further apart than a round trip, that time in the place of `trip`: else who hears seldom leaves the link idle. */
    return 0;
}

/* The rate for a load of U, once a round trip. `sent_at`: when the packet left that is acknowledged. */
static inline void own_cc_react(struct own_cc *s, weft_u64 sent_at, weft_u64 now)
{
    (void)s, (void)sent_at, (void)now;
    /* TODO 3: if the packet left at least a base round trip after the last change (before, U still has loads from before it):
     * rate x eta / U, and a part of the line in addition, within min_rate and line_rate. U may be 0. */
}

/* Something has happened; `telemetry` is NULL where no switch has said anything. */
static inline void own_cc_on_event(struct own_cc *s, const struct cc_event *event, const struct cc_telemetry *telemetry, weft_u64 now)
{
    const weft_u64 trip = s->params.base_rtt_ns / s->params.time_scale;
    weft_u64 most = 0, known = 0;

    if (event->kind != CC_ACKED || !telemetry || !path_hops(telemetry))
        return;
    /* TODO 4: counters wrap (PATH_WRAPS). Who was silent for OWN_CC_SILENT_NS of the fabric forgets what hops said. */
    s->heard_at = now;
    for (weft_u32 i = 0; i < PATH_HOPS_MOST; i++) {
        struct path_hop hop;
        weft_u64 load, ns;

        path_hop_read(telemetry, i, &hop);
        load = own_cc_take(s, i, &hop, trip, &ns);
        if (ns && load >= most) {
            most = load;
            known = ns;
        }
    }
    if (!known)
        return;
    /* TODO 2: U is the load of the fullest hop, averaged over a round trip: U + (load - U) x known / trip. */
    s->used = most;
    own_cc_react(s, now - (event->rtt_ns ? event->rtt_ns : s->params.base_rtt_ns), now);
}

static inline void own_cc_elapse(struct own_cc *s, weft_u64 now) { (void)s, (void)now; }

/* The rate at `now` in bits/s; nothing changes. */
static inline weft_u64 own_cc_rate_at(const struct own_cc *s, weft_u64 now)
{
    (void)now;
    return s->rate;
}

/* How many bytes may be on the way; one packet always may. */
static inline weft_u64 own_cc_window_at(const struct own_cc *s, weft_u64 now)
{
    (void)s, (void)now;
    /* TODO 4: what the rate sends in a base round trip, in bytes. Mind that 2^42 x 2^34 does not fit 64 bits. */
    return CC_NO_LIMIT;
}

static inline weft_u32 own_cc_path_at(const struct own_cc *s, const struct cc_choice *choice, weft_u64 now)
{
    (void)s, (void)choice, (void)now;
    return CC_NO_PATH;
}

#endif
#ifdef CC_ALGORITHM
CC_ALGORITHM(own_cc)
#endif
