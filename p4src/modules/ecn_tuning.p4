// Dynamic ECN thresholds: what arrives for a queue is measured, a controller learns it and says when the queue marks.
// docs/ecn-thresholds.md has the formula.
//
//   a packet on its way to a measured queue -> MeasureArrivals  in ingress: by how much the queue would have grown at
//                                                               most, and of how many flows; a digest each interval
//   a packet that leaves one                -> TunedMarking     in egress: thresholds that the controller found
//
// What is measured is a queue without an end that the port's line empties: packets count that the real one has no room
// for, and who is in front of whom does not matter. A digest leaves with the first
// packet after an interval: of a queue to which nothing comes nothing is said, and its thresholds stand.

#if HOOK == HOOK_PROFILE

#ifndef PROFILE
#define WITH_ECN_TUNING 1
#endif
#ifdef WITH_ECN_TUNING
#define WITH_PARAMETERS 1
#define WITH_MARKING_THRESHOLDS 1
#ifndef ECN_TUNING_QUEUES
#define ECN_TUNING_QUEUES 256       // a power of two
#endif
#endif

#elif defined(WITH_ECN_TUNING)
#if HOOK == HOOK_TYPES

#define ACTION_ID_TUNE_QUEUE         0x01001001
#define ACTION_ID_SKIP_MEASURING            0x01001002
#define ACTION_ID_MARK_TUNED            0x01001003
#define ACTION_ID_LEAVE_MARKING         0x01001004
#define TABLE_ID_TUNED_QUEUE            0x02001001
#define TABLE_ID_TUNED_THRESHOLD        0x02001002
#define REGISTER_ID_TUNING_BACKLOG      0x16001001
#define REGISTER_ID_TUNING_INTERVAL     0x16001002
#define REGISTER_ID_TUNING_SEEN         0x16001003

#define TUNING_CELLS 256            // by flow's hash

const bit<32> ON_LINE_BYTES = 24;   // of a frame besides what std.packet_length counts: FCS, preamble, gap

// What came for a queue in an interval. Times in ticks.
struct tuning_report {
    port_t  port;
    bit<3>  class_of_service;
    bit<48> ticks;                  // how long the interval was
    bit<32> bytes;
    bit<48> rise;                   // by so much the line's work grew at most, from any time to a later one
    bit<16> cells;                  // of how many its flows are
}

struct ecn_tuning_t {
    bit<1> measured;                // it goes to such a queue
}

#elif HOOK == HOOK_METADATA
    ecn_tuning_t ecn_tuning;

#elif HOOK == HOOK_METADATA_START
        meta.ecn_tuning.measured = 0;

#elif HOOK == HOOK_CONTROLS

control MeasureArrivals(in headers_t hdr, inout local_metadata_t meta, in standard_metadata_t std) {
    // By queue: until when the line has work 64, the least that was ahead of it in this interval 64, in 1/65536 ticks; by
    // how much more that was later, at most, in ticks 48.
    @id(REGISTER_ID_TUNING_BACKLOG)
    register<bit<176>>(ECN_TUNING_QUEUES) tuning_backlog;

    // By queue: when the interval began 48, its bytes 32, its flows' cells 16, its number 8 (never 0).
    @id(REGISTER_ID_TUNING_INTERVAL)
    register<bit<104>>(ECN_TUNING_QUEUES) tuning_interval;

    // By queue and flow's hash: the number of the interval in which it was last seen.
    @id(REGISTER_ID_TUNING_SEEN)
    register<bit<8>>(ECN_TUNING_QUEUES * TUNING_CELLS) tuning_seen;

    bit<16> place = 0;
    bit<32> per_byte = 0;
    bit<48> interval_ticks = 0;

    // `number`: of the queue, among those of this switch. `time_per_byte`: on the line, in 1/65536 ticks.
    @id(ACTION_ID_TUNE_QUEUE)
    action tune_queue(@id(1) bit<16> number, @id(2) bit<32> time_per_byte, @id(3) bit<48> interval) {
        place = number;
        per_byte = time_per_byte;
        interval_ticks = interval;
    }

    @id(ACTION_ID_SKIP_MEASURING)
    action skip_measuring() { }

    @id(TABLE_ID_TUNED_QUEUE)
    table tuned_queue {
        key = {
            std.egress_spec: exact @name("port");
            std.priority: exact @name("class");
        }
        actions = { tune_queue; @defaultonly skip_measuring; }
        const default_action = skip_measuring();
        size = ECN_TUNING_QUEUES;
    }

    apply {
        if (tuned_queue.apply().hit) {
            meta.ecn_tuning.measured = 1;
            bit<48> now = std.ingress_global_timestamp;
            bit<176> backlog;
            tuning_backlog.read(backlog, (bit<32>)place);
            bit<64> at = now ++ 16w0;
            bit<64> until = backlog[175:112] > at ? backlog[175:112] : at;
            bit<64> ahead = until - at;
            bit<64> least = ahead < backlog[111:48] ? ahead : backlog[111:48];
            bit<48> rise = backlog[47:0];

            bit<104> interval;
            tuning_interval.read(interval, (bit<32>)place);
            bit<48> since = interval[103:56];
            bit<32> bytes = interval[55:24];
            bit<16> flows = interval[23:8];
            bit<8> number = interval[7:0];
            if (number == 0) {          // the queue's first packet
                since = now;
                number = 1;
                least = ahead;
            }
            if (now - since >= interval_ticks) {
                digest<tuning_report>(1, { std.egress_spec, std.priority, now - since, bytes, rise, flows });
                since = now;
                bytes = 0;
                flows = 0;
                number = number == 255 ? 8w1 : number + 1;
                least = ahead;
                rise = 0;
            }
            bytes = bytes |+| std.packet_length;
            bit<64> takes = (bit<64>)(std.packet_length + ON_LINE_BYTES) * (bit<64>)per_byte;
            bit<64> more = ahead + takes - least;
            if (more[63:16] > rise) {
                rise = more[63:16];
            }

            // A queue pair, from one address to another; of other traffic the ports. What is not IPv4 counts as one flow:
            // an invalid header's fields hold what the packet before had.
            ipv4_addr_t source = 0;
            ipv4_addr_t destination = 0;
            qp_t pair = 0;
            bit<16> source_port = meta.flow.src_port;
            if (hdr.ipv4.isValid()) {
                source = hdr.ipv4.src;
                destination = hdr.ipv4.dst;
            }
            if (hdr.bth.isValid()) {
                pair = hdr.bth.destination_qp;
                source_port = 0;
            }
            bit<32> mixed;
            hash(mixed, HashAlgorithm.crc32, 32w0, {
                source, destination, pair, source_port, meta.flow.dst_port
            }, 64w0x100000000);
            // A CRC is linear: of flows whose numbers follow each other it would put many into one cell.
            mixed = mixed * 0x9e3779b1;
            bit<32> cell = (bit<32>)(place ++ mixed[31:24]);
            bit<8> seen;
            tuning_seen.read(seen, cell);
            if (seen != number) {
                tuning_seen.write(cell, number);
                flows = flows + 1;
            }
            tuning_backlog.write((bit<32>)place, (until + takes) ++ least ++ rise);
            tuning_interval.write((bit<32>)place, since ++ bytes ++ flows ++ number);
        }
    }
}

control TunedMarking(inout local_metadata_t meta, in standard_metadata_t std) {
    // As the thresholds that are installed for the queue, whose place these take.
    @id(ACTION_ID_MARK_TUNED)
    action mark_tuned(@id(1) depth_t low, @id(2) depth_t high, @id(3) bit<32> slope) {
        meta.marking.given = 1;
        meta.marking.low = low;
        meta.marking.high = high;
        meta.marking.slope = slope;
    }

    @id(ACTION_ID_LEAVE_MARKING)
    action leave_marking() { }

    @id(TABLE_ID_TUNED_THRESHOLD)
    table tuned_threshold {
        key = {
            std.egress_port: exact @name("port");
            std.priority: exact @name("class");
        }
        actions = { mark_tuned; @defaultonly leave_marking; }
        const default_action = leave_marking();
        size = ECN_TUNING_QUEUES;
    }

    apply {
        if (meta.ecn_tuning.measured == 1) {
            tuned_threshold.apply();
        }
    }
}

#elif HOOK == HOOK_INGRESS_INSTANCES
    MeasureArrivals() measure_arrivals;

#elif HOOK == HOOK_EGRESS_INSTANCES
    TunedMarking() tuned_marking;

#elif HOOK == HOOK_INGRESS_FORWARDED
        measure_arrivals.apply(hdr, meta, std);

#elif HOOK == HOOK_EGRESS
        tuned_marking.apply(meta, std);

#endif
#endif
