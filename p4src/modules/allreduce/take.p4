// Takes what came to the UDP port: checks it, lets it count, and sends what follows from it.

#ifndef WEFT_ALLREDUCE_TAKE_P4
#define WEFT_ALLREDUCE_TAKE_P4

@id(COUNTER_ID_ALLREDUCE)
counter(PORTS * 16, CounterType.packets) allreduce;      // by the port that a packet came by, and AllReduceOutcome

// Whether a datagram is as one has to be, whoever sent it. `sums`: it is about a slot.
control CheckAllReduce(in headers_t hdr, in allreduce_place_t place, in standard_metadata_t std, in bool sums,
                       out bool right) {
    apply {
        bit<32> bytes = (bit<32>)hdr.allreduce.lanes << 2;
#ifdef WITH_BEST_EFFORT
        bool partial = hdr.allreduce.kind == AllReduceKind.PARTIAL;
        if (partial) {
            bytes = bytes + ALLREDUCE_WORKERS_BYTES;
        }
#endif
        right = hdr.ipv4.ihl == 5 && hdr.ipv4.length == hdr.udp.length + 20 &&
            (bit<32>)hdr.udp.length >= bytes + ALLREDUCE_UDP_BYTES &&
            (bit<32>)hdr.ipv4.length + 14 <= std.packet_length;
        if (sums) {
            // A contribution comes from a child, a result from the parent; with enough lanes, or none; the chunk says
            // which slot and version are its.
            bool up = hdr.allreduce.kind != AllReduceKind.RESULT;
            bit<32> slots = (bit<32>)place.slots;
            bit<32> slot = (bit<32>)hdr.allreduce.slot;
            right = right && up == (place.from_child == 1) &&
                (hdr.allreduce.lanes == 0 || hdr.allreduce_lanes.isValid()) &&
                slot < slots && (place.best_effort == 1 || place.base + slot < ALLREDUCE_SLOTS) &&
                hdr.allreduce.chunk & (slots - 1) == slot &&
                (hdr.allreduce.chunk & slots != 0) == (hdr.allreduce.version == 1);
#ifdef WITH_BEST_EFFORT
            if (up) {
                right = right && partial == (place.best_effort == 1);
            }
            right = right && place.cells <= ALLREDUCE_POOL;
            if (partial) {
                // Of workers that can be beneath the child, and of some.
                right = right && hdr.allreduce_workers.workers != 0 &&
                    hdr.allreduce_workers.workers & ~place.own == 0;
            }
#endif
        }
    }
}

control TakeAllReduce(inout headers_t hdr, inout local_metadata_t meta, inout standard_metadata_t std) {
    FindTree() find_tree;
    CheckAllReduce() check;
    Rounds() rounds;
    SendAllReduce() send;

    action count_as(AllReduceOutcome outcome) {
        allreduce.count((bit<32>)std.ingress_port << 4 | (bit<32>)(bit<8>)outcome);
    }

    apply {
        AllReduceOutcome outcome = AllReduceOutcome.REFUSED;
        if (meta.drop_reason == DropReason.UNDECIDED) {
            allreduce_place_t place;
            bool found;
            bool right;
            bit<16> newest = 0;
            bool sums = hdr.allreduce.kind == AllReduceKind.CONTRIBUTION ||
                hdr.allreduce.kind == AllReduceKind.RESULT;
#ifdef WITH_BEST_EFFORT
            sums = sums || hdr.allreduce.kind == AllReduceKind.PARTIAL;
#endif
            find_tree.apply(hdr, std, place, found);
            check.apply(hdr, place, std, sums, right);
            if (found && right) {
                if (sums) {
                    if (hdr.ipv4.ecn == Ecn.CONGESTED && place.from_child == 1) {
                        // The next link can mark it again; what it has met goes along in the header.
                        hdr.ipv4.ecn = Ecn.CAPABLE_0;
                        hdr.allreduce.congestion = 1;
                        count_as(AllReduceOutcome.CONGESTED);
                    }
                    bit<1> overflowed;
                    rounds.apply(hdr, place, std.ingress_global_timestamp, outcome, newest, overflowed);
                    if (overflowed == 1) {
                        count_as(AllReduceOutcome.OVERFLOWED);
                    }
                } else if (hdr.allreduce.kind == AllReduceKind.MOVE) {
                    outcome = AllReduceOutcome.MOVED;
                } else if (hdr.allreduce.kind == AllReduceKind.BLOCK) {
                    outcome = AllReduceOutcome.BLOCK;
                }
            }
            meta.drop_reason = outcome == AllReduceOutcome.REFUSED ? DropReason.REFUSED : DropReason.FORWARDED;
            send.apply(hdr, meta, std, place, outcome, newest);
        }
        if (meta.drop_reason != DropReason.FORWARDED || outcome != AllReduceOutcome.REFUSED) {
            count_as(outcome);
        }
    }
}

#endif
