// The sums: LANES int32 for each version of each slot and each cell of the pool, two in a register's cell.

#ifndef WEFT_ALLREDUCE_SUMS_P4
#define WEFT_ALLREDUCE_SUMS_P4

#define ALLREDUCE_PAIRS (ALLREDUCE_LANES / 2)
#define ALLREDUCE_SIGNS 64w0x8000000080000000       // of both lanes of a pair
#define ALLREDUCE_ALL 64w0xffffffffffffffff

// What slots and versions have, and behind it what the pool's cells have.
#ifdef WITH_BEST_EFFORT
#define ALLREDUCE_POOL_CELLS ALLREDUCE_POOL
#else
#define ALLREDUCE_POOL_CELLS 0
#endif
#define ALLREDUCE_CELLS (ALLREDUCE_SLOTS * 2 + ALLREDUCE_POOL_CELLS)

@id(REGISTER_ID_ALLREDUCE_SUMS)
register<bit<64>>(ALLREDUCE_CELLS * ALLREDUCE_PAIRS) allreduce_sums;

// The new sum is (what is stored & keep) + (what the packet has & take), in the register and in the packet alike:
//
//   keep  take
//    0     1     the first of a round, and a result from the parent
//    1     1     one more contribution
//    1     0     what is stored is wanted again
//
// Both lanes are added at once: without the sign bits no carry leaves a lane, and a sign bit is the exclusive or of the
// summands' and the carry. An addition leaves int32 if both summands have the sign that the sum does not have.
#define ALLREDUCE_FOLD(n) \
        index = at + n; \
        allreduce_sums.read(old, index); \
        old = old & keep; \
        own = hdr.allreduce_lanes.pair_##n & take; \
        sum = ((old & ~ALLREDUCE_SIGNS) + (own & ~ALLREDUCE_SIGNS)) ^ ((old ^ own) & ALLREDUCE_SIGNS); \
        left = left | ((old ^ sum) & (own ^ sum)); \
        hdr.allreduce_lanes.pair_##n = sum; \
        allreduce_sums.write(index, sum);

control FoldLanes(inout headers_t hdr, in bit<32> at, in bit<64> keep, in bit<64> take, out bit<1> overflow) {
    bit<64> left = 0;

    action fold_lanes() {
        bit<32> index;
        bit<64> old;
        bit<64> own;
        bit<64> sum;
        ALLREDUCE_EACH_PAIR(ALLREDUCE_FOLD)
    }

    apply {
        fold_lanes();
        overflow = left & ALLREDUCE_SIGNS == 0 ? 1w0 : 1w1;
    }
}

#endif
