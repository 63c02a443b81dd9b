/* The rule of a sender: how fast it sends once switches have told it at which rate each of their queues may be met.
 *
 *   switch 1, port 3: "100 Gb/s, for 16 us" ----+
 *   switch 2, port 1: "40 Gb/s, for 1 ms" ------+--> the words that stand ---- the least of them: 40 Gb/s
 *   switch 1, port 7: "250 Gb/s, for 32 us" ----+              |
 *                                                              +---- none stands any more: back to the line, a doubling at a time
 *
 * One state is one queue pair. The card calls the functions below; they know no time but `now` (nanoseconds) and remember
 * nothing outside the state. Whole unsigned numbers only: the kernel runs the same header. It takes the place of
 * hostagent/include/fast_cnp.h in card, simulator and kernel, so that its names and its parameters are that one's.
 *
 * Grade:  weft grade rate-by-hand --answer my_rule.h
 *
 * It compiles as it is, and hears nothing: it sends at the line's rate whatever it is told. README.md explains the numbered TODOs.
 */
#ifndef RATE_BY_HAND_H
#define RATE_BY_HAND_H

#include "cc_event.h"

#define FAST_CNP_WORDS 8
#define FAST_CNP_RATE_MAX ((weft_u64)1 << 42)  /* bits/s: products of a rate then fit 64 bits */
#define FAST_CNP_UNIT_MAX ((weft_u64)1 << 32)  /* of rate_unit_q16 */
#define FAST_CNP_UNITS_MAX ((weft_u64)1 << 27) /* what a notification's rate is below, in its units */
#define FAST_CNP_TWO_PACKETS ((weft_u64)1 << 16) /* bits */
#define FAST_CNP_SECOND_NS ((weft_u64)1000000000)

struct fast_cnp_params {
    weft_u64 line_rate;        /* bits/s, at most FAST_CNP_RATE_MAX */
    weft_u64 min_rate;         /* bits/s, > 0 */
    weft_u64 validity_unit_ns; /* what `validity` counts in, > 0 and below 2^32 */
    weft_u64 rate_unit_q16;    /* what `rate` counts in, in 2^-16 bits/s, > 0 */
};

struct fast_cnp_word {
    weft_u64 rate;      /* bits/s; 0: there is no word here */
    weft_u64 until;     /* ns: it stands before, and no more at this time */
    weft_u64 stands_ns; /* for how long it stood, from when it came */
    weft_u64 queue;     /* whose it is: switch and port in one number, that may be 0 */
};

struct fast_cnp {
    struct fast_cnp_params params;
    weft_u64 rate; /* bits/s, as of the last event or fast_cnp_elapse */
    struct fast_cnp_word words[FAST_CNP_WORDS];
};

enum { fast_cnp_HEARS = 1 << CC_NOTIFIED };
enum { fast_cnp_WANTS = 0 };

static inline const char *fast_cnp_invalid(const struct fast_cnp_params *p)
{
    if (!p->line_rate || p->line_rate > FAST_CNP_RATE_MAX)
        return "line_rate is from 1 to 2^42 bits/s";
    if (!p->min_rate || p->min_rate > p->line_rate)
        return "min_rate is from 1 to line_rate";
    if (!p->validity_unit_ns || p->validity_unit_ns >> 32)
        return "validity_unit_ns is from 1 to 2^32 - 1";
    if (!p->rate_unit_q16 || p->rate_unit_q16 > FAST_CNP_UNIT_MAX)
        return "rate_unit_q16 is from 1 to 2^32";
    return 0;
}

static inline void fast_cnp_init(struct fast_cnp *s, const struct fast_cnp_params *params, weft_u64 now)
{
    (void)now;
    s->params = *params;
    s->rate = params->line_rate;
    for (int i = 0; i < FAST_CNP_WORDS; i++)
        s->words[i].rate = s->words[i].until = s->words[i].stands_ns = s->words[i].queue = 0;
}

/* The rate at `now` in bits/s; nothing changes. */
static inline weft_u64 fast_cnp_rate_at(const struct fast_cnp *s, weft_u64 now)
{
    /* TODO 3: while words stand (now < until), the rate is the least of theirs. */
    /* TODO 4: when none stands any more: from the word that stood longest (the latest `until`; of two, the slower one), doubled each time
     * that it could have stood again: at until + stands_ns, at until + 2 * stands_ns, ..., up to the line. A source that was never told
     * has the line. */
    (void)now;
    return s->params.line_rate;
}

/* Time has passed. */
static inline void fast_cnp_elapse(struct fast_cnp *s, weft_u64 now) { s->rate = fast_cnp_rate_at(s, now); }

/* Which place in s->words a word of `queue` takes, from 0 to FAST_CNP_WORDS - 1. */
static inline weft_u32 fast_cnp_place(const struct fast_cnp *s, weft_u64 queue, weft_u64 now)
{
    /* TODO 2: where a word of this queue is already. Else a free place; else that of the word that is over for longest; else, where all
     * of them stand, that of the fastest. */
    (void)s, (void)queue, (void)now;
    return 0;
}

/* A switch has told it: a queue of it (event->number) may be met at event->rate, for event->validity. */
static inline void fast_cnp_on_event(struct fast_cnp *s, const struct cc_event *event, const struct cc_telemetry *telemetry,
                                     weft_u64 now)
{
    const struct fast_cnp_params *p = &s->params;
    weft_u64 rate = ((event->rate & (FAST_CNP_UNITS_MAX - 1)) * p->rate_unit_q16) >> 16; /* bits/s */
    weft_u64 stands = p->validity_unit_ns << (event->validity & 15);                      /* ns */
    struct fast_cnp_word *word = &s->words[fast_cnp_place(s, event->number, now) & (FAST_CNP_WORDS - 1)];

    (void)telemetry, (void)rate, (void)stands, (void)word;
    /* TODO 1: write the word down, with its rate no lower than min_rate and no higher than line_rate. It stands from now on for `stands`, and for
     * as long as two packets take at its rate (FAST_CNP_TWO_PACKETS), since who sends seldom is told seldom. An event->rate of 0 says
     * nothing. */
    /* TODO 2: in the place of another queue's word that still stands only if it is slower than that one. */
    fast_cnp_elapse(s, now);
}

static inline weft_u64 fast_cnp_window_at(const struct fast_cnp *s, weft_u64 now)
{
    (void)s, (void)now;
    return CC_NO_LIMIT;
}

static inline weft_u32 fast_cnp_path_at(const struct fast_cnp *s, const struct cc_choice *choice, weft_u64 now)
{
    (void)s, (void)choice, (void)now;
    return CC_NO_PATH;
}

#endif
#ifdef CC_ALGORITHM
CC_ALGORITHM(fast_cnp)
#endif
