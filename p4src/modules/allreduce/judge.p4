// What a contribution or a result is to its slot, by what the slot knows.

#ifndef WEFT_ALLREDUCE_JUDGE_P4
#define WEFT_ALLREDUCE_JUDGE_P4

struct allreduce_round_t {
    bit<1>  bare;           // without lanes
    bit<1>  done;
    bit<1>  overflow;
    bit<1>  congestion;
    bit<8>  exponent;
    bit<16> epoch;
    bit<32> chunk;
    bit<64> bitmap;
}

#ifndef ALLREDUCE_WITHOUT_CHUNKS

// `first`: a round begins, nothing that is stored counts. Changes the round's bitmap, epoch and chunk if the contribution
// is to be added. An epoch older than what its slot knows has been refused before.
control JudgeContribution(in headers_t hdr, in allreduce_place_t place, in bit<32> cell, in bit<1> bare,
                          inout allreduce_round_t round, out AllReduceOutcome outcome, out bool first) {
    apply {
        bit<32> ahead = round.chunk - hdr.allreduce.chunk;
        first = round.bitmap == 0 || round.epoch != hdr.allreduce.epoch || ahead[31:31] == 1;
        if (first) {
            outcome = AllReduceOutcome.CONTRIBUTED;
            round.bitmap = 0;
            round.epoch = hdr.allreduce.epoch;
            round.chunk = hdr.allreduce.chunk;
        } else if (ahead != 0) {
            outcome = AllReduceOutcome.LATE;
        } else if (round.bare != bare) {
            outcome = AllReduceOutcome.REFUSED;
        } else if (round.bitmap & place.own == 0) {
            outcome = AllReduceOutcome.CONTRIBUTED;
        } else if (round.done == 1) {
            outcome = AllReduceOutcome.ANSWERED;
        } else if (round.bitmap == place.children) {
            outcome = AllReduceOutcome.REPEATED;
        } else {
            outcome = AllReduceOutcome.DUPLICATE;
        }
        if (outcome == AllReduceOutcome.CONTRIBUTED) {
            round.bitmap = round.bitmap | place.own;
            if (round.bitmap == place.children) {
                outcome = AllReduceOutcome.SUMMED;
            }
        }
    }
}

#else

// As SwitchML published it, with versions and bitmaps alone, for the test that finds the wrong sum. At one level. Where
// the chunk would be it counts contributions, as so many ones; none: the version is done.
control JudgeContribution(in headers_t hdr, in allreduce_place_t place, in bit<32> cell, in bit<1> bare,
                          inout allreduce_round_t round, out AllReduceOutcome outcome, out bool first) {
    apply {
        first = round.chunk == 0;
        if (round.bitmap & place.own == 0) {
            bit<64> other;
            allreduce_bitmaps.read(other, cell ^ 1);
            allreduce_bitmaps.write(cell ^ 1, other & ~place.own);
            outcome = AllReduceOutcome.CONTRIBUTED;
            round.bitmap = round.bitmap | place.own;
            round.chunk = round.chunk << 1 | 1;
            if ((bit<64>)round.chunk == place.children) {
                outcome = AllReduceOutcome.SUMMED;
                round.chunk = 0;
            }
        } else if (first) {
            outcome = AllReduceOutcome.ANSWERED;
            first = false;
        } else {
            outcome = AllReduceOutcome.DUPLICATE;
        }
    }
}

#endif

// Whether a result is the one that a complete round waits for.
control JudgeResult(in headers_t hdr, in allreduce_place_t place, in bit<1> bare, in allreduce_round_t round,
                    out AllReduceOutcome outcome) {
    apply {
        if (round.bitmap == place.children && round.done == 0 && round.bare == bare &&
            round.epoch == hdr.allreduce.epoch && round.chunk == hdr.allreduce.chunk) {
            outcome = AllReduceOutcome.RESULT;
        } else {
            outcome = AllReduceOutcome.UNEXPECTED;
        }
    }
}

#endif
