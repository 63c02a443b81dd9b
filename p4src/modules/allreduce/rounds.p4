// Rounds: what each version of each slot is at, and what a contribution or a result makes of it.
//
// A round is one chunk in one epoch. What a child contributes to it is always the same, so a repeat adds nothing, and a
// late one can't get into another round.

#ifndef WEFT_ALLREDUCE_ROUNDS_P4
#define WEFT_ALLREDUCE_ROUNDS_P4

// By slot: 1, the job that uses it 16, the newest epoch that it has seen 16.
@id(REGISTER_ID_ALLREDUCE_EPOCHS)
register<bit<33>>(ALLREDUCE_SLOTS + ALLREDUCE_POOL_CELLS) allreduce_epochs;

// By slot and version: without lanes 1, done 1, overflow 1, congestion 1, exponent 8, epoch 16, chunk 32.
@id(REGISTER_ID_ALLREDUCE_ROUNDS)
register<bit<60>>(ALLREDUCE_CELLS) allreduce_rounds;

// The children that contributed. None: there is no round.
@id(REGISTER_ID_ALLREDUCE_BITMAPS)
register<bit<64>>(ALLREDUCE_CELLS) allreduce_bitmaps;

#include "judge.p4"
#ifdef WITH_BEST_EFFORT
#include "pool.p4"
#endif

// Whether a packet is behind the slot's epoch, and what it leaves of another job's rounds: nothing.
control KeepEpoch(in headers_t hdr, in allreduce_place_t place, in bit<32> cell, inout allreduce_round_t round,
                  out bool stale, out bit<16> newest) {
    apply {
        bit<33> known;
        bit<33> own = 1w1 ++ hdr.allreduce.job ++ hdr.allreduce.epoch;
        allreduce_epochs.read(known, cell >> 1);
        newest = known[15:0];
        stale = false;
        if (known[32:16] != own[32:16]) {
            round.bitmap = 0;
            if (place.from_child == 1) {
                allreduce_bitmaps.write(cell ^ 1, 0);
                allreduce_epochs.write(cell >> 1, own);
            }
        } else if (known != own) {
            bit<16> behind = newest - hdr.allreduce.epoch;
            stale = behind[15:15] == 0;
            if (!stale && place.from_child == 1) {
                allreduce_epochs.write(cell >> 1, own);
            }
        }
    }
}

// Takes a contribution of a child, or a result of the parent. Afterwards the packet has what the switch stores, if it is
// to be sent. `newest`: of one that is stale, the epoch that its sender should know.
control Rounds(inout headers_t hdr, in allreduce_place_t place, in bit<48> now, out AllReduceOutcome outcome,
               out bit<16> newest, out bit<1> overflowed) {
#ifdef WITH_BEST_EFFORT
    FindCell() find_cell;
    JudgePartial() judge_partial;
#endif
    KeepEpoch() keep_epoch;
    JudgeContribution() judge_contribution;
    JudgeResult() judge_result;
    FoldLanes() fold_lanes;

    apply {
        bit<60> stored;
        allreduce_round_t round;
        bool stale;
        bool first = false;
        bool freed = false;
        bool joins = false;
        bit<32> cell = (place.base + (bit<32>)hdr.allreduce.slot) << 1 | (bit<32>)hdr.allreduce.version;
        bit<1> bare = hdr.allreduce_lanes.isValid() ? 1w0 : 1w1;
#ifdef WITH_BEST_EFFORT
        if (place.best_effort == 1) {
            find_cell.apply(hdr, place, cell);
        }
#endif
        allreduce_rounds.read(stored, cell);
        allreduce_bitmaps.read(round.bitmap, cell);
        round.bare = stored[59:59];
        round.done = stored[58:58];
        round.overflow = stored[57:57];
        round.congestion = stored[56:56];
        round.exponent = stored[55:48];
        round.epoch = stored[47:32];
        round.chunk = stored[31:0];
        overflowed = 0;
#ifdef WITH_BEST_EFFORT
        if (place.best_effort == 1) {
            newest = 0;
            judge_partial.apply(hdr, place, cell, bare, now, round, outcome, first, joins, freed);
        } else
#endif
        {
            keep_epoch.apply(hdr, place, cell, round, stale, newest);
            if (place.from_child == 0) {
                judge_result.apply(hdr, place, bare, round, outcome);
            } else if (stale) {
                outcome = AllReduceOutcome.STALE;
            } else {
                judge_contribution.apply(hdr, place, cell, bare, round, outcome, first);
            }
        }
        bool result = outcome == AllReduceOutcome.RESULT && place.best_effort == 0;
        bool add = joins || outcome == AllReduceOutcome.CONTRIBUTED || outcome == AllReduceOutcome.SUMMED;
        bit<1> take = add || result ? 1w1 : 1w0;
        bit<1> keep = first || result ? 1w0 : 1w1;
        bool again = outcome == AllReduceOutcome.ANSWERED || outcome == AllReduceOutcome.REPEATED;
#ifdef WITH_BEST_EFFORT
        again = again || outcome == AllReduceOutcome.FLUSHED;
#endif
        if (take == 1 || again) {
            if (bare == 0) {
                fold_lanes.apply(hdr, cell * ALLREDUCE_PAIRS, keep == 1 ? ALLREDUCE_ALL : 0,
                                 take == 1 ? ALLREDUCE_ALL : 0, overflowed);
            }
            round.exponent = keep == 1 ? round.exponent : 0;
            bit<8> own = take == 1 ? hdr.allreduce.exponent : 0;
            hdr.allreduce.exponent = own > round.exponent ? own : round.exponent;
            hdr.allreduce.overflow = (round.overflow & keep) | (hdr.allreduce.overflow & take) | overflowed;
            hdr.allreduce.congestion = (round.congestion & keep) | hdr.allreduce.congestion;
        }
        if (take == 1 && !freed) {
            round.done = result || (outcome == AllReduceOutcome.SUMMED && place.root == 1) ? 1w1 : 1w0;
            allreduce_bitmaps.write(cell, round.bitmap);
            allreduce_rounds.write(cell, bare ++ round.done ++ hdr.allreduce.overflow ++
                                   hdr.allreduce.congestion ++ hdr.allreduce.exponent ++
                                   round.epoch ++ round.chunk);
        }
    }
}

#endif
