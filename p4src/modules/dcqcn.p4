// DCQCN in the switch: marks packets of ECN-capable flows (RFC 3168) by the depth of the queue that
// they waited in. Sources slow down by the CNPs that their receivers send for marked packets.
//
// [ ecn_threshold ] holds two depths a queue. Between them the probability rises linearly (RED's
// curve without its average); equal depths make a step. The depth is the one at dequeue: the one at
// enqueue is stale by the queueing delay. A packet whose source hears of this queue by another signal
// is not marked, and one whose signal needs CE beside it is marked in any case. Thresholds that another mechanism found
// for the queue (meta.marking) stand in for the table's.

#if HOOK == HOOK_PROFILE

#ifndef PROFILE
#define WITH_DCQCN 1
#endif
#ifdef WITH_DCQCN
#define WITH_CONGESTION_SIGNAL 1
#endif

#elif defined(WITH_DCQCN)
#if HOOK == HOOK_TYPES

// Numbered among the parameters (include/ids.p4), where this table began.
#define ACTION_ID_MARK_ABOVE        0x01000103
#define ACTION_ID_DISABLE_MARKING   0x01000104
#define ACTION_ID_MARK_BETWEEN      0x01000105
#define TABLE_ID_ECN_THRESHOLD      0x02000103
#define COUNTER_ID_PORT_MARKED      0x12000004

typedef bit<32> probability_t;  // in 1/2^32

// When a queue marks: never up to `low`, always above `high`, with a rising probability between.
struct dcqcn_t {
    depth_t       low;
    depth_t       high;
    probability_t slope;            // for each unit of depth above `low`
}

#elif HOOK == HOOK_METADATA
    dcqcn_t dcqcn;

#elif HOOK == HOOK_METADATA_START
        meta.dcqcn.low = 0;
        meta.dcqcn.high = 0;
        meta.dcqcn.slope = 0;

#elif HOOK == HOOK_CONTROLS

control EcnMarking(inout headers_t hdr, inout local_metadata_t meta, in standard_metadata_t std) {
    @id(COUNTER_ID_PORT_MARKED)
    counter(PORTS, CounterType.packets) port_marked;

    // A queue deeper than this marks. The unit is the target's: packets, or cells of 256 bytes.
    @id(ACTION_ID_MARK_ABOVE)
    action mark_above(@id(1) depth_t threshold) {
        meta.dcqcn.low = threshold;
        meta.dcqcn.high = threshold;
    }

    // No queue is deeper than the largest number: nothing is marked.
    @id(ACTION_ID_DISABLE_MARKING)
    action disable_marking() {
        meta.dcqcn.low = 0x7ffff;
        meta.dcqcn.high = 0x7ffff;
    }

    // From `low` on ever more packets are marked, above `high` all. `slope`: what each unit of
    // depth adds to the probability, in 1/2^32.
    @id(ACTION_ID_MARK_BETWEEN)
    action mark_between(@id(1) depth_t low, @id(2) depth_t high, @id(3) probability_t slope) {
        meta.dcqcn.low = low;
        meta.dcqcn.high = high;
        meta.dcqcn.slope = slope;
    }

    // Its full name is the one under which controllers have always known it.
    @id(TABLE_ID_ECN_THRESHOLD)
    @name(".FabricEgress.parameters.ecn_threshold")
    table ecn_threshold {
        key = {
            std.egress_port: exact @name("port");
            std.priority: exact @name("class");
        }
        actions = { mark_above; mark_between; disable_marking; }
        default_action = disable_marking();
        size = PORTS * 8;
    }

    apply {
        ecn_threshold.apply();
#ifdef WITH_MARKING_THRESHOLDS
        if (meta.marking.given == 1) {
            meta.dcqcn.low = meta.marking.low;
            meta.dcqcn.high = meta.marking.high;
            meta.dcqcn.slope = meta.marking.slope;
        }
#endif
        if (hdr.ipv4.isValid() && meta.congestion.told == 0 &&
            (std.deq_qdepth > meta.dcqcn.low || meta.congestion.must_mark == 1) &&
            (hdr.ipv4.ecn == Ecn.CAPABLE_0 || hdr.ipv4.ecn == Ecn.CAPABLE_1)) {
            bool mark = true;
            if (std.deq_qdepth <= meta.dcqcn.high && meta.congestion.must_mark == 0) {
                bit<32> draw;
                random(draw, 0, 0xffffffff);
                bit<64> over = (bit<64>)(std.deq_qdepth - meta.dcqcn.low);
                mark = over * (bit<64>)meta.dcqcn.slope > (bit<64>)draw;
            }
            if (mark) {
                hdr.ipv4.ecn = Ecn.CONGESTED;
                port_marked.count((bit<32>)std.egress_port);
            }
        }
    }
}

#elif HOOK == HOOK_EGRESS_INSTANCES
    EcnMarking() ecn_marking;

#elif HOOK == HOOK_EGRESS
        ecn_marking.apply(hdr, meta, std);

#endif
#endif
