// The lanes: P4 has no loop over a header's fields, so macros write a line for each.
//
// Two lanes share a field of 64 bits: half the reads, additions and writes, and half the time to compile them.
//
//   ALLREDUCE_EACH_PAIR(X)     X(0x0) X(0x1) ... for all pairs of ALLREDUCE_LANES

#ifndef WEFT_ALLREDUCE_LANES_P4
#define WEFT_ALLREDUCE_LANES_P4

#if ALLREDUCE_LANES < 2 || ALLREDUCE_LANES > 1024 || ALLREDUCE_LANES & (ALLREDUCE_LANES - 1)
#error ALLREDUCE_LANES has to be a power of two from 2 to 1024
#endif

// The pairs of so many lanes. `n` is the number's beginning in hexadecimal.
#define ALLREDUCE_2(X, n) X(n##0)
#define ALLREDUCE_4(X, n) X(n##0) X(n##1)
#define ALLREDUCE_8(X, n) X(n##0) X(n##1) X(n##2) X(n##3)
#define ALLREDUCE_16(X, n) ALLREDUCE_8(X, n) X(n##4) X(n##5) X(n##6) X(n##7)
#define ALLREDUCE_32(X, n) ALLREDUCE_16(X, n) \
    X(n##8) X(n##9) X(n##a) X(n##b) X(n##c) X(n##d) X(n##e) X(n##f)
#define ALLREDUCE_64(X, n) ALLREDUCE_32(X, n##0) ALLREDUCE_32(X, n##1)
#define ALLREDUCE_128(X, n) ALLREDUCE_64(X, n) ALLREDUCE_32(X, n##2) ALLREDUCE_32(X, n##3)
#define ALLREDUCE_256(X, n) ALLREDUCE_128(X, n) \
    ALLREDUCE_32(X, n##4) ALLREDUCE_32(X, n##5) ALLREDUCE_32(X, n##6) ALLREDUCE_32(X, n##7)
#define ALLREDUCE_512(X, n) ALLREDUCE_256(X, n) \
    ALLREDUCE_32(X, n##8) ALLREDUCE_32(X, n##9) ALLREDUCE_32(X, n##a) ALLREDUCE_32(X, n##b) \
    ALLREDUCE_32(X, n##c) ALLREDUCE_32(X, n##d) ALLREDUCE_32(X, n##e) ALLREDUCE_32(X, n##f)
#define ALLREDUCE_1024(X, n) ALLREDUCE_512(X, n##0) ALLREDUCE_512(X, n##1)

// In two steps, so that ALLREDUCE_LANES is its value before it becomes part of a name.
#define ALLREDUCE_NAMED(lanes, X) ALLREDUCE_##lanes(X, 0x)
#define ALLREDUCE_NUMBERED(lanes, X) ALLREDUCE_NAMED(lanes, X)
#define ALLREDUCE_EACH_PAIR(X) ALLREDUCE_NUMBERED(ALLREDUCE_LANES, X)

#endif
