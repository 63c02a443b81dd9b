// The lanes: P4 has no loop over a header's fields, so macros write one line for each.
//
//   ALLREDUCE_EACH_LANE(X)     X(0x0) X(0x1) ... for all of ALLREDUCE_LANES

#ifndef WEFT_ALLREDUCE_LANES_P4
#define WEFT_ALLREDUCE_LANES_P4

#if ALLREDUCE_LANES < 1 || ALLREDUCE_LANES > 1024 || ALLREDUCE_LANES & (ALLREDUCE_LANES - 1)
#error ALLREDUCE_LANES has to be a power of two from 1 to 1024
#endif

// `n` is the number's beginning in hexadecimal.
#define ALLREDUCE_1(X, n) X(n##0)
#define ALLREDUCE_2(X, n) X(n##0) X(n##1)
#define ALLREDUCE_4(X, n) X(n##0) X(n##1) X(n##2) X(n##3)
#define ALLREDUCE_8(X, n) ALLREDUCE_4(X, n) X(n##4) X(n##5) X(n##6) X(n##7)
#define ALLREDUCE_16(X, n) ALLREDUCE_8(X, n) X(n##8) X(n##9) X(n##a) X(n##b) X(n##c) X(n##d) X(n##e) X(n##f)
#define ALLREDUCE_32(X, n) ALLREDUCE_16(X, n##0) ALLREDUCE_16(X, n##1)
#define ALLREDUCE_64(X, n) ALLREDUCE_32(X, n) ALLREDUCE_16(X, n##2) ALLREDUCE_16(X, n##3)
#define ALLREDUCE_128(X, n) ALLREDUCE_64(X, n) \
    ALLREDUCE_16(X, n##4) ALLREDUCE_16(X, n##5) ALLREDUCE_16(X, n##6) ALLREDUCE_16(X, n##7)
#define ALLREDUCE_256(X, n) ALLREDUCE_128(X, n) \
    ALLREDUCE_16(X, n##8) ALLREDUCE_16(X, n##9) ALLREDUCE_16(X, n##a) ALLREDUCE_16(X, n##b) \
    ALLREDUCE_16(X, n##c) ALLREDUCE_16(X, n##d) ALLREDUCE_16(X, n##e) ALLREDUCE_16(X, n##f)
#define ALLREDUCE_512(X, n) ALLREDUCE_256(X, n##0) ALLREDUCE_256(X, n##1)
#define ALLREDUCE_1024(X, n) ALLREDUCE_512(X, n) ALLREDUCE_256(X, n##2) ALLREDUCE_256(X, n##3)

// In two steps, so that ALLREDUCE_LANES is its value before it becomes part of a name.
#define ALLREDUCE_NAMED(lanes, X) ALLREDUCE_##lanes(X, 0x)
#define ALLREDUCE_NUMBERED(lanes, X) ALLREDUCE_NAMED(lanes, X)
#define ALLREDUCE_EACH_LANE(X) ALLREDUCE_NUMBERED(ALLREDUCE_LANES, X)

#endif
