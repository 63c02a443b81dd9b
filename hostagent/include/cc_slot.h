/* A queue pair's congestion control as the kernel keeps it: one element of the BPF array `cc_slots`.
 *
 * BPF is the only writer once the queue pair lives; endpoint and agent map the array read-only. `sequence` is odd while an
 * element is being written. In the simulator the endpoint itself owns the slot and updates it by the same header.
 */
#ifndef WEFT_CC_SLOT_H
#define WEFT_CC_SLOT_H

#include "dcqcn.h"
#include "fast_cnp.h"

/* What applies to a queue pair, a set: with both the rate is the smaller of the two. */
enum cc_algorithm { CC_NONE = 0, CC_DCQCN = 1, CC_FAST_CNP = 2 };

struct cc_slot {
    weft_u32 sequence;
    weft_u32 algorithm;          /* of enum cc_algorithm */
    weft_u32 qpn;                /* the local queue pair; 0: the slot is free */
    weft_u32 peer_qpn;
    weft_u32 local_ip, peer_ip;  /* host order */
    weft_u32 mtu;                /* payload bytes a packet: an acknowledgement of so many packets is of so many bytes */
    weft_u32 acked_psn;          /* the PSN behind the last one that was acknowledged, 24 bits */
    weft_u64 packets, bytes;     /* received for this queue pair (bytes: of UDP payloads) */
    weft_u64 cnps, fast_cnps;    /* of which; a CNP is one or the other */
    weft_u64 marked, acks, naks; /* of which; marked: with CE */
    weft_u64 last_at;            /* ns, of the last packet */
    weft_u64 first_cut_at;       /* ns, when the rate was first lowered, by whichever; 0: never */
    struct dcqcn dcqcn;
    struct fast_cnp fast;
};

enum cc_event_kind {
    CC_CNP = DCQCN_CNP,     /* a CNP that says no more than that there is congestion */
    CC_ACKED = DCQCN_ACKED, /* `bytes` were acknowledged */
    CC_TICK = DCQCN_TICK,
    CC_NOTIFIED = 3,        /* a fast CNP: `notice` is what it says */
};
struct cc_event {
    weft_u32 kind; /* enum cc_event_kind */
    weft_u32 pad_;
    weft_u64 bytes;
    struct fast_cnp_event notice;
};

/* What has happened to a queue pair goes to the algorithm that it is for, if the queue pair has it. */
static inline void cc_on_event(struct cc_slot *slot, const struct cc_event *event, weft_u64 now)
{
    if (event->kind == CC_NOTIFIED) {
        if (!(slot->algorithm & CC_FAST_CNP))
            return;
        fast_cnp_on_event(&slot->fast, &event->notice, now);
        if (!slot->first_cut_at && slot->fast.rate < slot->fast.params.line_rate)
            slot->first_cut_at = now;
    } else if (slot->algorithm & CC_DCQCN) {
        struct dcqcn_event own = {.kind = event->kind, .bytes = event->bytes};

        dcqcn_on_event(&slot->dcqcn, &own, now);
        if (!slot->first_cut_at && slot->dcqcn.rate < slot->dcqcn.params.line_rate)
            slot->first_cut_at = now;
    }
}

#ifndef __KERNEL__
static inline weft_u64 cc_smaller(const struct cc_slot *slot, weft_u64 dcqcn, weft_u64 fast)
{
    switch (slot->algorithm & (CC_DCQCN | CC_FAST_CNP)) {
    case CC_DCQCN:
        return dcqcn;
    case CC_FAST_CNP:
        return fast;
    case CC_DCQCN | CC_FAST_CNP:
        return dcqcn < fast ? dcqcn : fast;
    default:
        return 0;
    }
}

/* The rate in bits/s, 0 = not limited. Of a slot that somebody else writes: tries again while it is being written. */
static inline weft_u64 cc_rate_at(const struct cc_slot *slot, weft_u64 now)
{
    for (int attempt = 0; attempt < 64; attempt++) {
        weft_u32 before = __atomic_load_n(&slot->sequence, __ATOMIC_ACQUIRE);
        if (before & 1)
            continue;
        const weft_u64 dcqcn = slot->algorithm & CC_DCQCN ? dcqcn_rate_at(&slot->dcqcn, now) : 0;
        const weft_u64 fast = slot->algorithm & CC_FAST_CNP ? fast_cnp_rate_at(&slot->fast, now) : 0;
        const weft_u64 rate = cc_smaller(slot, dcqcn, fast);
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
        if (__atomic_load_n(&slot->sequence, __ATOMIC_RELAXED) == before)
            return rate;
    }
    return cc_smaller(slot, slot->dcqcn.params.min_rate, slot->fast.params.min_rate);
}

/* The same of a slot of one's own, which is brought up to `now`. */
static inline weft_u64 cc_elapse(struct cc_slot *slot, weft_u64 now)
{
    if (slot->algorithm & CC_DCQCN)
        dcqcn_elapse(&slot->dcqcn, now);
    if (slot->algorithm & CC_FAST_CNP)
        fast_cnp_elapse(&slot->fast, now);
    return cc_smaller(slot, slot->dcqcn.rate, slot->fast.rate);
}
#endif

#endif
