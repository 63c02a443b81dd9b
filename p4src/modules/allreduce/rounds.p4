// Rounds: what each version of each slot is at, and what a contribution or a result makes of it.
//
// A round is one chunk in one epoch. What a child contributes to it is always the same, so a repeat adds nothing, and a
// late one can't get into another round.

#ifndef WEFT_ALLREDUCE_ROUNDS_P4
#define WEFT_ALLREDUCE_ROUNDS_P4

// By slot: 1, the job that uses it 16, the newest epoch that it has seen 16.
@id(REGISTER_ID_ALLREDUCE_EPOCHS)
register<bit<33>>(ALLREDUCE_SLOTS) allreduce_epochs;

// By slot and version: without lanes 1, done 1, overflow 1, congestion 1, exponent 8, epoch 16, chunk 32.
@id(REGISTER_ID_ALLREDUCE_ROUNDS)
register<bit<60>>(ALLREDUCE_SLOTS * 2) allreduce_rounds;

// The children that contributed. None: there is no round.
@id(REGISTER_ID_ALLREDUCE_BITMAPS)
register<bit<64>>(ALLREDUCE_SLOTS * 2) allreduce_bitmaps;

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

// What a contribution is to its slot. `newest`: the epoch that the slot knows, if it is newer.
control JudgeContribution(in headers_t hdr, in allreduce_place_t place, in bit<32> cell, in bit<1> bare,
                          inout allreduce_round_t round, out AllReduceOutcome outcome,
                          out bit<16> newest, out bool first) {
    apply {
        bit<33> known;
        bit<33> mine = 1w1 ++ hdr.allreduce.job ++ hdr.allreduce.epoch;
        allreduce_epochs.read(known, cell >> 1);
        newest = known[15:0];
        first = false;
        bit<16> behind = newest - hdr.allreduce.epoch;
        bit<32> ahead = round.chunk - hdr.allreduce.chunk;
        if (known[32:16] != mine[32:16]) {
            // What another job left is nothing.
            round.bitmap = 0;
            behind = 0;
            allreduce_bitmaps.write(cell ^ 1, 0);
        }
        if (known != mine && behind[15:15] == 0 && behind != 0) {
            outcome = AllReduceOutcome.STALE;
        } else {
            allreduce_epochs.write(cell >> 1, mine);
#ifndef ALLREDUCE_WITHOUT_CHUNKS
            first = round.bitmap == 0 || round.epoch != hdr.allreduce.epoch || ahead[31:31] == 1;
#else
            first = round.bitmap == 0;
            ahead = 0;
#endif
            if (first) {
                outcome = AllReduceOutcome.CONTRIBUTED;
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
        }
    }
}

// Whether a result is the one that a complete round waits for.
control JudgeResult(in headers_t hdr, in allreduce_place_t place, in bit<32> cell, in bit<1> bare,
                    in allreduce_round_t round, out AllReduceOutcome outcome) {
    apply {
        bit<33> known;
        allreduce_epochs.read(known, cell >> 1);
        bool same = round.epoch == hdr.allreduce.epoch && round.chunk == hdr.allreduce.chunk && round.bare == bare;
#ifdef ALLREDUCE_WITHOUT_CHUNKS
        same = true;
#endif
        if (known[32:16] == 1w1 ++ hdr.allreduce.job && round.bitmap == place.children &&
            round.done == 0 && same) {
            outcome = AllReduceOutcome.RESULT;
        } else {
            outcome = AllReduceOutcome.UNEXPECTED;
        }
    }
}

// Takes a contribution of a child, or a result of the parent. Afterwards the packet has what the switch stores, if it is
// to be sent. `newest`: of one that is stale, the epoch that its sender should know.
control Rounds(inout headers_t hdr, in allreduce_place_t place, out AllReduceOutcome outcome,
               out bit<16> newest, out bit<1> overflowed) {
    JudgeContribution() judge_contribution;
    JudgeResult() judge_result;
    FoldLanes() fold_lanes;
    bit<1> keep = 1;
    bit<1> take = 0;
    bool first = false;

    apply {
        bit<60> stored;
        allreduce_round_t round;
        bit<32> cell = (place.base + (bit<32>)hdr.allreduce.slot) << 1 | (bit<32>)hdr.allreduce.version;
        bit<1> bare = hdr.allreduce_lanes.isValid() ? 1w0 : 1w1;
        allreduce_rounds.read(stored, cell);
        allreduce_bitmaps.read(round.bitmap, cell);
        round.bare = stored[59:59];
        round.done = stored[58:58];
        round.overflow = stored[57:57];
        round.congestion = stored[56:56];
        round.exponent = stored[55:48];
        round.epoch = stored[47:32];
        round.chunk = stored[31:0];
        newest = 0;
        overflowed = 0;
        keep = 1;
        take = 0;
        if (place.from_child == 1) {
            judge_contribution.apply(hdr, place, cell, bare, round, outcome, newest, first);
            if (outcome == AllReduceOutcome.CONTRIBUTED) {
                keep = first ? 1w0 : 1w1;
                take = 1;
                round.done = round.done & keep;
                round.bitmap = (first ? 64w0 : round.bitmap) | place.own;
                if (round.bitmap == place.children) {
                    outcome = AllReduceOutcome.SUMMED;
                    round.done = place.root;
                }
#ifdef ALLREDUCE_WITHOUT_CHUNKS
                bit<64> other;
                allreduce_bitmaps.read(other, cell ^ 1);
                allreduce_bitmaps.write(cell ^ 1, other & ~place.own);
#endif
            }
        } else {
            judge_result.apply(hdr, place, cell, bare, round, outcome);
            if (outcome == AllReduceOutcome.RESULT) {
                keep = 0;
                take = 1;
                round.done = 1;
            }
        }
        if (take == 1 || outcome == AllReduceOutcome.ANSWERED || outcome == AllReduceOutcome.REPEATED) {
            if (hdr.allreduce_lanes.isValid()) {
                fold_lanes.apply(hdr, cell * ALLREDUCE_PAIRS, keep == 1 ? ALLREDUCE_ALL : 0,
                                 take == 1 ? ALLREDUCE_ALL : 0, overflowed);
            }
            round.exponent = keep == 1 ? round.exponent : 0;
            bit<8> own = take == 1 ? hdr.allreduce.exponent : 0;
            hdr.allreduce.exponent = own > round.exponent ? own : round.exponent;
            hdr.allreduce.overflow = (round.overflow & keep) | (hdr.allreduce.overflow & take) | overflowed;
            hdr.allreduce.congestion = (round.congestion & keep) | hdr.allreduce.congestion;
        }
        if (take == 1) {
            allreduce_bitmaps.write(cell, round.bitmap);
            allreduce_rounds.write(cell, bare ++ round.done ++ hdr.allreduce.overflow ++
                                   hdr.allreduce.congestion ++ hdr.allreduce.exponent ++
                                   hdr.allreduce.epoch ++ hdr.allreduce.chunk);
        }
    }
}

#endif
