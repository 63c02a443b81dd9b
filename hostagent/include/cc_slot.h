/* A queue pair's congestion control as the kernel keeps it: one element of the BPF array `cc_slots`.
 *
 * BPF is the only writer once the queue pair lives; endpoint and agent map the array read-only. `sequence` is odd while an
 * element is being written. In the simulator the endpoint itself owns the slot and updates it by the same header.
 *
 * Everything that is done for each algorithm comes from the list: CC_ALGORITHM says what, cc_algorithms.h says for which.
 */
#ifndef WEFT_CC_SLOT_H
#define WEFT_CC_SLOT_H

#include "cc_algorithms.h"
#include "cc_event.h"

enum cc_place {
#define CC_ALGORITHM(name) CC_PLACE_##name,
#include "cc_algorithms.h"
#undef CC_ALGORITHM
    CC_ALGORITHMS /* how many there are */
};
/* An algorithm in a set of them. */
#define CC_BIT(name) ((weft_u32)1 << CC_PLACE_##name)

/* What applies to a queue pair, and how; 0 for what does not apply. */
struct cc_params {
    weft_u32 algorithms; /* a set: with several the rate is the smallest that any allows; 0: no congestion control */
    weft_u32 pad_;
#define CC_ALGORITHM(name) struct name##_params name;
#include "cc_algorithms.h"
#undef CC_ALGORITHM
};

struct cc_slot {
    weft_u32 sequence;
    weft_u32 algorithms;         /* a set, as in struct cc_params */
    weft_u32 qpn;                /* the local queue pair; 0: the slot is free */
    weft_u32 peer_qpn;
    weft_u32 local_ip, peer_ip;  /* host order */
    weft_u32 mtu;                /* payload bytes a packet: an acknowledgement of so many packets is of so many bytes */
    weft_u32 acked_psn;          /* the PSN behind the last one that was acknowledged, 24 bits */
    weft_u64 packets, bytes;     /* received for this queue pair (bytes: of UDP payloads) */
    weft_u64 cnps, notified;     /* of which: CNPs, and switches' notifications that an algorithm hears as such; never both */
    weft_u64 marked, acks, naks; /* of which; marked: with CE */
    weft_u64 last_at;            /* ns, of the last packet */
    weft_u64 first_cut_at;       /* ns, when the rate was first lowered, by whichever; 0: never */
    weft_u64 lost_at;            /* of one interface's slot: the last loss of it that its algorithms have heard of; 0: none */
    weft_u64 probes;             /* and how many of its probes were answered */
    weft_u32 shared;             /* the slot whose `cc_sent` says what was sent when and by which interface: of a queue pair
                                    with a slot for each interface the first one's, else its own */
    weft_u32 plane;              /* and which of the queue pair's interfaces this is; 0 */
    weft_u32 planes;             /* how many of them have a slot; 0: this queue pair has one slot, whatever its interfaces are */
    weft_u32 come;               /* of one plane's: packets that have come by it, as the peer said last, where algorithms want more than rates */
#define CC_ALGORITHM(name) struct name name;
#include "cc_algorithms.h"
#undef CC_ALGORITHM
};

/* The algorithms that hear events of a kind, as a set. */
static inline weft_u32 cc_hearers(weft_u32 kind)
{
    weft_u32 set = 0;

#define CC_ALGORITHM(name) set |= (weft_u32)(name##_HEARS >> kind & 1) << CC_PLACE_##name;
#include "cc_algorithms.h"
#undef CC_ALGORITHM
    return set;
}

/* The algorithms that want something (enum cc_want), as a set. */
static inline weft_u32 cc_wanting(weft_u32 what)
{
    weft_u32 set = 0;

#define CC_ALGORITHM(name) set |= (weft_u32)((name##_WANTS & what) != 0) << CC_PLACE_##name;
#include "cc_algorithms.h"
#undef CC_ALGORITHM
    return set;
}

/* What has happened to a queue pair goes to those of its algorithms that hear it. */
static inline void cc_on_event(struct cc_slot *slot, const struct cc_event *event, const struct cc_telemetry *telemetry,
                               weft_u64 now)
{
#define CC_ALGORITHM(name)                                                                    \
    if (name##_HEARS >> event->kind & 1 && slot->algorithms & CC_BIT(name)) {                 \
        name##_on_event(&slot->name, event, telemetry, now);                                  \
        if (event->kind != CC_PROBED && !slot->first_cut_at && slot->name.rate < slot->name.params.line_rate) \
            slot->first_cut_at = now;                                                         \
    }
#include "cc_algorithms.h"
#undef CC_ALGORITHM
}

/* Those of its algorithms that want any of these begin again with the parameters that they have: the path that they measured is no more. */
static inline void cc_begin_anew(struct cc_slot *slot, weft_u32 wants, weft_u64 now)
{
#define CC_ALGORITHM(name)                                                \
    if (slot->algorithms & CC_BIT(name) && (name##_WANTS & wants) != 0)   \
        name##_init(&slot->name, &slot->name.params, now);
#include "cc_algorithms.h"
#undef CC_ALGORITHM
}

#ifndef __KERNEL__
/* Why parameters are refused, and in `*which` whose; NULL: they are not. */
static inline const char *cc_invalid(const struct cc_params *params, const char **which)
{
    *which = "congestion control";
    if (params->algorithms >> CC_ALGORITHMS)
        return "there is no such algorithm";
#define CC_ALGORITHM(name)                                     \
    if (params->algorithms & CC_BIT(name)) {                   \
        const char *why = name##_invalid(&params->name);       \
        *which = #name;                                        \
        if (why)                                               \
            return why;                                        \
    }
#include "cc_algorithms.h"
#undef CC_ALGORITHM
    return 0;
}

/* A fresh slot's congestion control starts. */
static inline void cc_begin(struct cc_slot *slot, const struct cc_params *params, weft_u64 now)
{
    slot->algorithms = params->algorithms;
#define CC_ALGORITHM(name)                 \
    if (slot->algorithms & CC_BIT(name))   \
        name##_init(&slot->name, &params->name, now);
#include "cc_algorithms.h"
#undef CC_ALGORITHM
}

/* What a set of algorithms wants of the card, in all. */
static inline weft_u32 cc_wants(weft_u32 algorithms)
{
    weft_u32 wants = 0;

#define CC_ALGORITHM(name)             \
    if (algorithms & CC_BIT(name))     \
        wants |= name##_WANTS;
#include "cc_algorithms.h"
#undef CC_ALGORITHM
    return wants;
}

static inline weft_u64 cc_smaller(weft_u64 one, weft_u64 other) { return one < other ? one : other; }

/* The rate in bits/s, 0 = not limited. Of a slot that somebody else writes: tries again while it is being written. */
static inline weft_u64 cc_rate_at(const struct cc_slot *slot, weft_u64 now)
{
    weft_u64 rate = CC_NO_LIMIT;

    for (int attempt = 0; attempt < 64; attempt++) {
        weft_u32 before = __atomic_load_n(&slot->sequence, __ATOMIC_ACQUIRE);
        if (before & 1)
            continue;
        rate = CC_NO_LIMIT;
#define CC_ALGORITHM(name)               \
    if (slot->algorithms & CC_BIT(name)) \
        rate = cc_smaller(rate, name##_rate_at(&slot->name, now));
#include "cc_algorithms.h"
#undef CC_ALGORITHM
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
        if (__atomic_load_n(&slot->sequence, __ATOMIC_RELAXED) == before)
            return rate == CC_NO_LIMIT ? 0 : rate;
    }
    rate = CC_NO_LIMIT;
#define CC_ALGORITHM(name)               \
    if (slot->algorithms & CC_BIT(name)) \
        rate = cc_smaller(rate, slot->name.params.min_rate);
#include "cc_algorithms.h"
#undef CC_ALGORITHM
    return rate == CC_NO_LIMIT ? 0 : rate;
}

/* The same of a slot of one's own, which is brought up to `now`. */
static inline weft_u64 cc_elapse(struct cc_slot *slot, weft_u64 now)
{
    weft_u64 rate = CC_NO_LIMIT;

#define CC_ALGORITHM(name)                          \
    if (slot->algorithms & CC_BIT(name)) {          \
        name##_elapse(&slot->name, now);            \
        rate = cc_smaller(rate, slot->name.rate);   \
    }
#include "cc_algorithms.h"
#undef CC_ALGORITHM
    return rate == CC_NO_LIMIT ? 0 : rate;
}

/* How many bytes may be on the way, the fewest that any algorithm allows; CC_NO_LIMIT: any number. Of a slot that somebody
 * else writes: tries again while it is being written, and allows nothing new if it always is. */
static inline weft_u64 cc_window_at(const struct cc_slot *slot, weft_u64 now)
{
    for (int attempt = 0; attempt < 64; attempt++) {
        weft_u64 window = CC_NO_LIMIT;
        weft_u32 before = __atomic_load_n(&slot->sequence, __ATOMIC_ACQUIRE);
        if (before & 1)
            continue;
#define CC_ALGORITHM(name)               \
    if (slot->algorithms & CC_BIT(name)) \
        window = cc_smaller(window, name##_window_at(&slot->name, now));
#include "cc_algorithms.h"
#undef CC_ALGORITHM
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
        if (__atomic_load_n(&slot->sequence, __ATOMIC_RELAXED) == before)
            return window;
    }
    return 0;
}

/* Which path a packet takes: as the first algorithm of the list says that says something; CC_NO_PATH: none does. */
static inline weft_u32 cc_path_at(const struct cc_slot *slot, const struct cc_choice *choice, weft_u64 now)
{
    weft_u32 path = CC_NO_PATH;

#define CC_ALGORITHM(name)                                         \
    if (path == CC_NO_PATH && slot->algorithms & CC_BIT(name))     \
        path = name##_path_at(&slot->name, choice, now);
#include "cc_algorithms.h"
#undef CC_ALGORITHM
    return path;
}
#endif

#endif
