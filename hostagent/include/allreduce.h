/* In-network AllReduce on the wire: the header that workers and switches exchange (docs/allreduce.md).
 *
 * Mirrors p4src/modules/allreduce.p4 and protocols/allreduce.py; a test compares them.
 */
#ifndef WEFT_ALLREDUCE_H
#define WEFT_ALLREDUCE_H

#include "weft_types.h"

enum {
    WEFT_ALLREDUCE_PORT = 28792,      /* UDP, handled by switches */
    WEFT_ALLREDUCE_PEER_PORT = 28793, /* UDP, between hosts: routed */
    WEFT_ALLREDUCE_BYTES = 16,        /* of the header */
    WEFT_ALLREDUCE_SET_BYTES = 8,     /* of the set of workers behind a partial's, a bit a rank */
    WEFT_ALLREDUCE_TREES = 8,         /* the epoch's low bits select one */
    WEFT_ALLREDUCE_BIAS = 128,        /* of exponents; 0 on the wire: none */
};

enum weft_allreduce_kind {
    WEFT_ALLREDUCE_CONTRIBUTION = 1,
    WEFT_ALLREDUCE_RESULT = 2,
    WEFT_ALLREDUCE_MOVE = 3,
    WEFT_ALLREDUCE_BLOCK = 4,
    WEFT_ALLREDUCE_PARTIAL = 5, /* best effort: the set of workers follows the header */
};

enum weft_allreduce_flags {
    WEFT_ALLREDUCE_OVERFLOW = 1,
    WEFT_ALLREDUCE_CONGESTION = 2,
    WEFT_ALLREDUCE_FROM_ROOT = 4,
    WEFT_ALLREDUCE_EXPONENT_ONLY = 8,
    WEFT_ALLREDUCE_AGAIN = 16, /* of a partial: after a time-out */
};

#endif
