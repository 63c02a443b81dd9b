/* When a receiver sends a CNP: RoCEv2's notification point (Zhu et al., SIGCOMM 2015, figure 6).
 *
 * Whatever the sender makes of CNPs. Pure, as the algorithms' headers are (cc_algorithms.h).
 */
#ifndef WEFT_CNP_INTERVAL_H
#define WEFT_CNP_INTERVAL_H

#include "weft_types.h"

struct cnp_interval {
    weft_u64 interval_ns; /* at most one CNP a queue pair in that time */
    weft_u64 last_at;
    weft_u32 sent;        /* 1: last_at holds */
    weft_u32 pending;     /* 1: a packet with CE came since */
};

/* A data packet came, `marked` with CE or not: 1 if a CNP is due.
 *
 * One CNP an interval if any packet in it was marked: a mark within the interval is reported at its end. Nothing here has a timer,
 * so that is when the next packet comes.
 */
static inline int cnp_due(struct cnp_interval *s, int marked, weft_u64 now)
{
    if (marked)
        s->pending = 1;
    if (!s->pending || (s->sent && now - s->last_at < s->interval_ns))
        return 0;
    s->sent = 1;
    s->pending = 0;
    s->last_at = now;
    return 1;
}

#endif
