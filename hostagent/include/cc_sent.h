/* When packets were sent and which path they took, by their PSN: what round-trip times are made of, and an event's path.
 *
 * A ring of words, a power of two of them, one packet each: its PSN's 24 bits, a bit that says that the time is known,
 * and 39 bits of it (9 minutes of nanoseconds). A word is written and read as a whole, so that the endpoint may write while the
 * BPF program reads: for queue pairs of the kernel the ring is an element of the BPF array `cc_sent`. Of a packet that was
 * sent more than once it is not known: nobody can tell which of them an acknowledgement is for (Karn's rule).
 *
 * Paths are a ring of their own, for the kernel alone: 8 bits, and the 8 lowest of how often the ring has been round, by which
 * a path of another packet is found out.
 */
#ifndef WEFT_CC_SENT_H
#define WEFT_CC_SENT_H

#include "weft_types.h"

#define CC_SENT_KERNEL 256 /* packets that an element of `cc_sent` remembers */
#define CC_SENT_KNOWN ((weft_u64)1 << 39)
#define CC_SENT_TIME (CC_SENT_KNOWN - 1)
#define CC_SENT_PATHS 2048 /* packets whose path it remembers: what a line's full queue of 4 MB holds */

struct cc_sent {
    weft_u64 packets[CC_SENT_KERNEL];
    weft_u16 paths[CC_SENT_PATHS];
    weft_u64 lost_at; /* ns: when the endpoint last found that the interface does not get through, for events CC_PROBED; 0: never */
    weft_u32 lost;    /* of one plane's: packets by it that the endpoint takes for lost. What came and what is lost, together, is the order by
                         which `packets` are kept then, instead of PSNs: a plane delivers in that order */
    weft_u32 pad_;
};

/* How often the ring of paths has been round before a packet, modulo 256. */
static inline weft_u32 cc_sent_round(weft_u32 psn) { return (psn & 0xffffff) / CC_SENT_PATHS & 0xff; }

/* The word for the path of a packet. */
static inline weft_u16 cc_sent_path_word(weft_u32 psn, weft_u32 path)
{
    return (weft_u16)(cc_sent_round(psn) << 8 | (path & 0xff));
}

/* The path of a packet by its word; 0 if that is another one's. */
static inline weft_u8 cc_sent_path(weft_u16 word, weft_u32 psn)
{
    return word >> 8 == cc_sent_round(psn) ? (weft_u8)word : 0;
}

/* The word for a packet that is sent at `now`; `again`: not for the first time. */
static inline weft_u64 cc_sent_word(weft_u32 psn, weft_u64 now, weft_u32 again)
{
    return (weft_u64)(psn & 0xffffff) << 40 | (again ? 0 : CC_SENT_KNOWN | (now & CC_SENT_TIME));
}

/* The round trip of an acknowledgement at `now`, by the words of the first and of the last packet that it is the first to
 * acknowledge; 0: not known. If the first one was sent again, the last one has waited for it at the receiver. */
static inline weft_u64 cc_sent_trip(weft_u64 first, weft_u32 first_psn, weft_u64 last, weft_u32 last_psn, weft_u64 now)
{
    if (!(last & CC_SENT_KNOWN) || last >> 40 != (last_psn & 0xffffff))
        return 0;
    if (!(first & CC_SENT_KNOWN) && first >> 40 == (first_psn & 0xffffff))
        return 0;
    return (now - last) & CC_SENT_TIME;
}

#endif
