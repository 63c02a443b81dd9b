/* When packets were sent, by their PSN: what round-trip times are made of.
 *
 * A ring of words, a power of two of them, one packet each: its PSN's 24 bits, a bit that says that the time is known,
 * and 39 bits of it (9 minutes of nanoseconds). A word is written and read as a whole, so that the endpoint may write while the
 * BPF program reads: for queue pairs of the kernel the ring is an element of the BPF array `cc_sent`. Of a packet that was
 * sent more than once it is not known: nobody can tell which of them an acknowledgement is for (Karn's rule).
 */
#ifndef WEFT_CC_SENT_H
#define WEFT_CC_SENT_H

#include "weft_types.h"

#define CC_SENT_KERNEL 256 /* packets that an element of `cc_sent` remembers */
#define CC_SENT_KNOWN ((weft_u64)1 << 39)
#define CC_SENT_TIME (CC_SENT_KNOWN - 1)

struct cc_sent {
    weft_u64 packets[CC_SENT_KERNEL];
};

/* The word for a packet that is sent at `now`; `again`: not for the first time. */
static inline weft_u64 cc_sent_word(weft_u32 psn, weft_u64 now, weft_u32 again)
{
    return (weft_u64)(psn & 0xffffff) << 40 | (again ? 0 : CC_SENT_KNOWN | (now & CC_SENT_TIME));
}

/* How long ago a packet was sent, by the word at its place; 0: not known. */
static inline weft_u64 cc_sent_since(weft_u64 word, weft_u32 psn, weft_u64 now)
{
    return word & CC_SENT_KNOWN && word >> 40 == (psn & 0xffffff) ? (now - word) & CC_SENT_TIME : 0;
}

#endif
