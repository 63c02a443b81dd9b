// Best effort, after ATP (Lao et al., NSDI 2021): what a partial is to the cell of the pool that its chunk has.
//
// A job has a server and no slots. Its chunks claim cells; who finds a cell taken goes on towards the server as it came, and
// so does a repeat, with what the cell has. Only sets of workers that share none are ever added: whatever is lost or comes
// twice costs packets to the server, and never a wrong sum. What a cell holds may be given up at any time for the same reason.

#ifndef WEFT_ALLREDUCE_POOL_P4
#define WEFT_ALLREDUCE_POOL_P4

#define ALLREDUCE_POOL_BASE (ALLREDUCE_SLOTS * 2)
#define ALLREDUCE_POOL_TICKS 10     // a round's age counts in 2^10 ticks

// `cell` of this packet's chunk. An odd stride gives any `cells` chunks in a row a cell each.
control FindCell(in headers_t hdr, in allreduce_place_t place, out bit<32> cell) {
    apply {
        cell = ALLREDUCE_POOL_BASE;
        if (place.cells != 0) {
            bit<32> place_in_pool = hdr.allreduce.chunk * place.stride + place.offset;
            cell = cell + (place_in_pool & (place.cells - 1));
        }
    }
}

// A first partial of all the workers beneath needs no cell: it goes on.
//
// Where `round.epoch` is, a cell has the time at which its round began. `first`: it begins with this packet. `joins`: the
// packet's lanes are to be added. `freed`: the cell is nobody's afterwards.
control JudgePartial(inout headers_t hdr, in allreduce_place_t place, in bit<32> cell, in bit<1> bare, in bit<48> now,
                     inout allreduce_round_t round, out AllReduceOutcome outcome, out bool first,
                     out bool joins, out bool freed) {
    bit<33> known;

    apply {
        bit<33> own = 1w1 ++ hdr.allreduce.job ++ hdr.allreduce.epoch;
        allreduce_epochs.read(known, cell - ALLREDUCE_SLOTS);
        bool mine = round.bitmap != 0 && known == own && round.chunk == hdr.allreduce.chunk;
        first = false;
        joins = false;
        freed = false;
        outcome = AllReduceOutcome.PASSED;
        if (place.from_child == 0) {
            outcome = AllReduceOutcome.RESULT;
            freed = mine;
        } else if (mine) {
            bit<64> both = round.bitmap & hdr.allreduce_workers.workers;
            freed = hdr.allreduce.again == 1;
            if (round.bare != bare) {
                outcome = AllReduceOutcome.REFUSED;
                freed = false;
            } else if (both != 0 && both != hdr.allreduce_workers.workers) {
                outcome = AllReduceOutcome.PASSED;
            } else if (freed) {
                outcome = AllReduceOutcome.FLUSHED;
                joins = both == 0;
            } else if (both != 0) {
                outcome = AllReduceOutcome.DUPLICATE;
            } else {
                outcome = AllReduceOutcome.CONTRIBUTED;
            }
        } else if (hdr.allreduce.again == 0 && place.cells != 0 && hdr.allreduce_workers.workers != place.children) {
            // Whoever sends a later chunk of the same slot has the earlier one's result: its round is over.
            bit<32> ahead = hdr.allreduce.chunk - round.chunk;
            bit<16> age = now[ALLREDUCE_POOL_TICKS + 15:ALLREDUCE_POOL_TICKS] - round.epoch;
            bool over = known[32:16] == own[32:16] &&
                (known != own || (ahead[31:31] == 0 && ahead & ((bit<32>)place.slots - 1) == 0));
            if (round.bitmap == 0 || over || age >= place.patience) {
                outcome = AllReduceOutcome.CONTRIBUTED;
                first = true;
                round.bitmap = 0;
                round.epoch = now[ALLREDUCE_POOL_TICKS + 15:ALLREDUCE_POOL_TICKS];
                round.chunk = hdr.allreduce.chunk;
                allreduce_epochs.write(cell - ALLREDUCE_SLOTS, own);
            }
        }
        if (outcome == AllReduceOutcome.CONTRIBUTED || outcome == AllReduceOutcome.FLUSHED) {
            round.bitmap = round.bitmap | hdr.allreduce_workers.workers;
            hdr.allreduce_workers.workers = round.bitmap;
        }
        if (outcome == AllReduceOutcome.CONTRIBUTED && round.bitmap == place.children) {
            outcome = AllReduceOutcome.SUMMED;
        }
        if (freed) {
            allreduce_bitmaps.write(cell, 0);
        }
    }
}

#endif
