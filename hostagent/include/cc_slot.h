/* A queue pair's congestion control as the kernel keeps it: one element of the BPF array `cc_slots`.
 *
 * BPF is the only writer once the queue pair lives; endpoint and agent map the array read-only. `sequence` is odd while an
 * element is being written. In the simulator the endpoint itself owns the slot and updates it by the same header.
 */
#ifndef WEFT_CC_SLOT_H
#define WEFT_CC_SLOT_H

#include "dcqcn.h"

enum cc_algorithm { CC_NONE = 0, CC_DCQCN = 1 };

struct cc_slot {
    weft_u32 sequence;
    weft_u32 algorithm;          /* enum cc_algorithm */
    weft_u32 qpn;                /* the local queue pair; 0: the slot is free */
    weft_u32 peer_qpn;
    weft_u32 local_ip, peer_ip;  /* host order */
    weft_u32 mtu;                /* payload bytes a packet: an acknowledgement of so many packets is of so many bytes */
    weft_u32 acked_psn;          /* the PSN behind the last one that was acknowledged, 24 bits */
    weft_u64 packets, bytes;     /* received for this queue pair (bytes: of UDP payloads) */
    weft_u64 cnps, marked, acks, naks; /* of which; marked: with CE */
    weft_u64 last_at;            /* ns, of the last packet */
    struct dcqcn dcqcn;
};

#ifndef __KERNEL__
/* The rate in bits/s, 0 = not limited. Of a slot that somebody else writes: tries again while it is being written. */
static inline weft_u64 cc_rate_at(const struct cc_slot *slot, weft_u64 now)
{
    for (int attempt = 0; attempt < 64; attempt++) {
        weft_u32 before = __atomic_load_n(&slot->sequence, __ATOMIC_ACQUIRE);
        if (before & 1)
            continue;
        weft_u64 rate = slot->algorithm == CC_DCQCN ? dcqcn_rate_at(&slot->dcqcn, now) : 0;
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
        if (__atomic_load_n(&slot->sequence, __ATOMIC_RELAXED) == before)
            return rate;
    }
    return slot->algorithm == CC_DCQCN ? slot->dcqcn.params.min_rate : 0;
}
#endif

#endif
