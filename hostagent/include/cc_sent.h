/* When packets were sent, by their PSN: what round-trip times are made of.
 *
 * A ring of words, a power of two of them, one packet each: its PSN's 24 bits above 40 bits of time (18 minutes of
 * nanoseconds). A word is written and read as a whole, so that the endpoint may write while the BPF program reads: for queue
 * pairs of the kernel the ring is an element of the BPF array `cc_sent`. A packet that was sent more than once has the
 * time 0: nobody can tell which of them an acknowledgement is for (Karn's rule).
 */
#ifndef WEFT_CC_SENT_H
#define WEFT_CC_SENT_H

#include "weft_types.h"

#define CC_SENT_KERNEL 256 /* packets that an element of `cc_sent` remembers */
#define CC_SENT_TIME (((weft_u64)1 << 40) - 1)

struct cc_sent {
    weft_u64 packets[CC_SENT_KERNEL];
};

/* The word for a packet that is sent at `now`; `again`: not for the first time. */
static inline weft_u64 cc_sent_word(weft_u32 psn, weft_u64 now, weft_u32 again)
{
    const weft_u64 time = now & CC_SENT_TIME;

    return (weft_u64)(psn & 0xffffff) << 40 | (again ? 0 : time ? time : 1);
}

/* How long ago a packet was sent, by the word at its place; 0: not known. */
static inline weft_u64 cc_sent_since(weft_u64 word, weft_u32 psn, weft_u64 now)
{
    const weft_u64 time = word & CC_SENT_TIME;

    return time && word >> 40 == (psn & 0xffffff) ? (now - time) & CC_SENT_TIME : 0;
}

#endif
