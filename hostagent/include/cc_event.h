/* What congestion control hears of: one event for every algorithm (cc_algorithms.h).
 *
 * A mechanism with a signal of its own adds a kind behind the last one and, for what the signal carries, fields: integers
 * only, no pointers, because the BPF program builds events on its stack (512 bytes in all) and tests write them into arrays.
 * What a kind does not use is 0, so that a new field changes nothing for the kinds that are there.
 */
#ifndef WEFT_CC_EVENT_H
#define WEFT_CC_EVENT_H

#include "weft_types.h"

enum cc_event_kind {
    CC_CNP = 0,      /* a CNP came that says no more than that there is congestion */
    CC_ACKED = 1,    /* `bytes` were acknowledged for the first time */
    CC_TICK = 2,     /* nothing but time */
    CC_NOTIFIED = 3, /* a switch's own notification of congestion (notification.h): `severity`, `validity` */
};

struct cc_event {
    weft_u32 kind;     /* enum cc_event_kind, at most 31 */
    weft_u32 pad_;
    weft_u64 bytes;
    weft_u32 severity; /* 0 .. 15, as the notification has them */
    weft_u32 validity; /* 0 .. 15 */
};

#endif
