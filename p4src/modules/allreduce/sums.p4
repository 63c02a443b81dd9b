// The sums: LANES int32 for each version of each slot.

#ifndef WEFT_ALLREDUCE_SUMS_P4
#define WEFT_ALLREDUCE_SUMS_P4

@id(REGISTER_ID_ALLREDUCE_SUMS)
register<bit<32>>(ALLREDUCE_SLOTS * 2 * ALLREDUCE_LANES) allreduce_sums;

// A lane's new sum is (what is stored & keep) + (what the packet has & take), in the register and in the packet alike:
//
//   keep  take
//    0     1     the first of a round, and a result from the parent
//    1     1     one more contribution
//    1     0     what is stored is wanted again
//
// An addition leaves int32 if both summands have the sign that the sum does not have.
#define ALLREDUCE_FOLD(n) \
        allreduce_sums.read(old, at + n); \
        old = old & keep; \
        own = hdr.allreduce_lanes.lane_##n & take; \
        hdr.allreduce_lanes.lane_##n = old + own; \
        signs = signs | ((old ^ hdr.allreduce_lanes.lane_##n) & (own ^ hdr.allreduce_lanes.lane_##n)); \
        allreduce_sums.write(at + n, hdr.allreduce_lanes.lane_##n);

control FoldLanes(inout headers_t hdr, in bit<32> at, in bit<32> keep, in bit<32> take, out bit<1> overflow) {
    bit<32> signs = 0;

    action fold_lanes() {
        bit<32> old;
        bit<32> own;
        ALLREDUCE_EACH_LANE(ALLREDUCE_FOLD)
    }

    apply {
        fold_lanes();
        overflow = signs[31:31];
    }
}

#endif
