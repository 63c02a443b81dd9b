/* What a source does with fast CNPs: notifications of congestion that switches send it themselves (docs/fast-cnp.md).
 *
 * Pure: no kernel calls, no floating point, no 128-bit and no signed arithmetic; `now` in nanoseconds of any clock that never
 * goes back. A notification says how fast whoever meets its queue may send (`rate`), and for how long that stands (`validity`,
 * chosen by the switch to cover the loop from it to this source and back, its queue included):
 *
 *   a queue's word     replaces the one before of the same queue; it stands for its validity, and as long as two packets of the
 *                      rate take, since who sends seldom is told seldom
 *   some stand         the rate is the least of them
 *   none stands        the rate is that of the word that stood longest, doubled as often as it could have stood again since
 *
 * At most FAST_CNP_WORDS words are kept; where more stand, the least.
 */
#ifndef WEFT_FAST_CNP_H
#define WEFT_FAST_CNP_H

#include "cc_event.h"

#define FAST_CNP_WORDS 8
#define FAST_CNP_RATE_MAX ((weft_u64)1 << 42)  /* bits/s: 4.4 Tb/s, so that products fit 64 bits */
#define FAST_CNP_UNIT_MAX ((weft_u64)1 << 32)  /* of rate_unit_q16: the fabric's rates as they are */
#define FAST_CNP_UNITS_MAX ((weft_u64)1 << 27) /* what a notification's rate is below, in its units */
#define FAST_CNP_TWO_PACKETS ((weft_u64)1 << 16) /* bits */
#define FAST_CNP_SECOND_NS ((weft_u64)1000000000)

struct fast_cnp_params {
    weft_u64 line_rate;        /* bits/s, at most FAST_CNP_RATE_MAX; the first rate, and never exceeded */
    weft_u64 min_rate;         /* bits/s, > 0 */
    weft_u64 validity_unit_ns; /* what `validity` counts in, > 0 and below 2^32; grows with the time scale */
    weft_u64 rate_unit_q16;    /* what `rate` counts in, in 2^-16 bits/s, > 0; shrinks with the time scale */
};

struct fast_cnp_word {
    weft_u64 rate;      /* bits/s; 0: there is no word */
    weft_u64 until;     /* ns */
    weft_u64 stands_ns;
    weft_u64 queue;     /* whose */
};

struct fast_cnp {
    struct fast_cnp_params params;
    weft_u64 rate;      /* bits/s */
    weft_u64 words_said; /* 0: none ever came, the rate is the line's */
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
    s->words_said = 0;
    for (int i = 0; i < FAST_CNP_WORDS; i++)
        s->words[i].rate = s->words[i].until = s->words[i].stands_ns = s->words[i].queue = 0;
}

/* The rate at `now` in bits/s. */
static inline weft_u64 fast_cnp_rate_at(const struct fast_cnp *s, weft_u64 now)
{
    const weft_u64 line = s->params.line_rate;
    weft_u64 least = 0, last = 0, from = 0, stood = 1, doublings;

    if (!s->words_said)
        return line;
    for (int i = 0; i < FAST_CNP_WORDS; i++) {
        const struct fast_cnp_word *word = &s->words[i];

        if (!word->rate)
            continue;
        if (word->until > now) {
            if (!least || word->rate < least)
                least = word->rate;
        } else if (word->until > last || (word->until == last && word->rate < from)) {
            last = word->until;
            from = word->rate;
            stood = word->stands_ns;
        }
    }
    if (least)
        return least;
    doublings = (now - last) / stood;
    return doublings > 41 || from > line >> doublings ? line : from << doublings;
}

/* Applies what time alone has done. */
static inline void fast_cnp_elapse(struct fast_cnp *s, weft_u64 now) { s->rate = fast_cnp_rate_at(s, now); }

/* Where a word of `queue` is to stand: that queue's place, a free one, the one that is over for longest, the fastest. */
static inline weft_u32 fast_cnp_place(const struct fast_cnp *s, weft_u64 queue, weft_u64 now)
{
    weft_u32 place = 0;
    weft_u64 best = 0, value;

    for (weft_u32 i = 0; i < FAST_CNP_WORDS; i++) {
        const struct fast_cnp_word *word = &s->words[i];

        if (word->rate && word->queue == queue)
            return i;
        if (!word->rate)
            value = CC_NO_LIMIT;
        else if (word->until <= now)
            value = CC_NO_LIMIT - 1 - word->until;
        else
            value = word->rate; /* below 2^43 */
        if (value > best) {
            best = value;
            place = i;
        }
    }
    return place;
}

static inline void fast_cnp_on_event(struct fast_cnp *s, const struct cc_event *event, const struct cc_telemetry *telemetry,
                                     weft_u64 now)
{
    const struct fast_cnp_params *p = &s->params;
    weft_u64 rate = ((event->rate & (FAST_CNP_UNITS_MAX - 1)) * p->rate_unit_q16) >> 16;
    struct fast_cnp_word *word;

    (void)telemetry;
    if (!event->rate) {
        fast_cnp_elapse(s, now);
        return;
    }
    if (rate < p->min_rate)
        rate = p->min_rate;
    if (rate > p->line_rate)
        rate = p->line_rate;
    word = &s->words[fast_cnp_place(s, event->number, now) & (FAST_CNP_WORDS - 1)];
    if (!word->rate || word->queue == event->number || word->until <= now || rate < word->rate) {
        word->rate = rate;
        word->stands_ns = (p->validity_unit_ns << (event->validity & 15)) + FAST_CNP_TWO_PACKETS * FAST_CNP_SECOND_NS / rate;
        word->until = now + word->stands_ns;
        word->queue = event->number;
    }
    s->words_said = 1;
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
