// Decides whether a packet that goes to a watched queue makes a CNP, and for whom: as it comes. Those that join a long queue would
// hear of it only when it has drained if they were told as they leave it, and send at their line's rate until then.
//
//   [ fast_cnp_source ]   -> reads notifications, or has a stock NIC
//   read_rate             -> the queue's rate is below the most, as egress has left it (watch.p4)
//   [ fast_cnp_claims ]   -> its numbers; those of a far queue [ fast_cnp_far_claims ] has already given
//   [ stock_queue_pairs ] -> of a stock NIC, unless a switch before this one said so
//   claim_interval        -> not within the flow's interval, within the port's limit, and a stock NIC only if it is too fast
//
// A stock NIC only knows that it has to slow down, so it must not hear that more often than it is above its share: what it sends is
// measured over an interval, and a CNP made if that was faster than the queue's rate by more than an eighth, or if it is new. Where its
// queue pair is not known, one packet is marked instead, and its receiver tells it.

#ifndef WEFT_FAST_CNP_CLAIM_P4
#define WEFT_FAST_CNP_CLAIM_P4

#include "../../include/constants.p4"
#include "../../include/headers.p4"
#include "ids.p4"
#include "watch.p4"

#ifndef FAST_CNP_SOURCES
#define FAST_CNP_SOURCES 4096
#endif
#ifndef FAST_CNP_FLOWS
#define FAST_CNP_FLOWS 4096         // cells of each of the flow table's two ways; a power of two
#endif
#ifndef STOCK_QUEUE_PAIRS
#define STOCK_QUEUE_PAIRS 16384
#endif

struct asked_queue_t {
    bit<10> index;
    bit<64> unit;           // a validity unit, in 1/256 ticks
    bit<64> speed;          // from bytes to ticks at 2^16 bits/s
    bit<64> burst_time;     // that four packets take at 2^16 bits/s, in ticks
    ticks_t gap;            // between two CNPs of this queue, on average
    ticks_t burst;          // how much earlier than that one may come
    rate_t  rate;           // at which everybody may send; 0: as fast as they can
}

// What becomes of a packet whose queue has a rate below the most; the index of its counter.
enum bit<8> FastCnpOutcome {
    SENT            = 0,
    INTERVAL        = 1,    // not now: the flow has been told a moment ago; or the packet has another copy; a stock NIC's is no faster than its share, too
    ALREADY_TOLD    = 2,    // a stock NIC, by a switch before this one
    PORT_LIMIT      = 3,    // the port has sent as many as it may
    COLLISION       = 4,    // other flows hold both cells that this one may use
    NOBODY          = 5,    // a source that is not in the table
    UNKNOWN_QP      = 6,    // of a stock NIC: the source's queue pair is not known
    AMBIGUOUS_QP    = 7     // of a stock NIC: it might be one of several
}

control ClaimCnp(inout headers_t hdr, inout local_metadata_t meta, in standard_metadata_t std,
                 out asked_queue_t queue, out FastCnpOutcome outcome) {
    ticks_t interval;
    ticks_t since_begin;
    bit<8> span;
    bit<32> way_a;
    bit<32> way_b;
    bit<15> fingerprint;

    @id(REGISTER_ID_NEXT_CNPS)
    register<ticks_t>(WATCHED) next_cnps;
    @id(REGISTER_ID_FLOWS_A)
    register<bit<64>>(FAST_CNP_FLOWS) flows_a;      // 1, fingerprint 15, when it was told 48
    @id(REGISTER_ID_FLOWS_B)
    register<bit<64>>(FAST_CNP_FLOWS) flows_b;
    @id(REGISTER_ID_BYTES_A)
    register<bit<32>>(FAST_CNP_FLOWS) bytes_a;      // what a stock NIC's flow has sent since
    @id(REGISTER_ID_BYTES_B)
    register<bit<32>>(FAST_CNP_FLOWS) bytes_b;
    @id(REGISTER_ID_LOOP_TIMES)
    register<ticks_t>(WATCHED) loop_times;

    @id(ACTION_ID_ASK_FAR_QUEUE)
    action ask_far_queue(@id(1) bit<10> index, @id(2) ticks_t unit, @id(3) bit<48> speed,
                         @id(4) bit<64> burst_time, @id(5) ticks_t gap, @id(6) ticks_t burst) {
        queue.index = index;
        queue.unit = (bit<64>)unit;
        queue.speed = (bit<64>)speed;
        queue.burst_time = burst_time;
        queue.gap = gap;
        queue.burst = burst;
    }

    @id(ACTION_ID_SKIP_FAR_QUEUE)
    action skip_far_queue() {
        queue.index = (bit<10>)std.egress_spec;
    }

    @id(TABLE_ID_FAST_CNP_FAR_CLAIMS)
    @name(".FabricIngress.fast_cnp.fast_cnp_far_claims")
    table fast_cnp_far_claims {
        key = {
            std.egress_spec: exact @name("port");
            hdr.ipv4.dst: exact @name("destination");
        }
        actions = { ask_far_queue; @defaultonly skip_far_queue; }
        const default_action = skip_far_queue();
        size = 1024;
    }

    @id(ACTION_ID_ASK_QUEUE)
    action ask_queue(@id(1) ticks_t unit, @id(2) bit<48> speed, @id(3) bit<64> burst_time,
                     @id(4) ticks_t gap, @id(5) ticks_t burst) {
        queue.unit = (bit<64>)unit;
        queue.speed = (bit<64>)speed;
        queue.burst_time = burst_time;
        queue.gap = gap;
        queue.burst = burst;
    }

    @id(ACTION_ID_SKIP_ASKING)
    action skip_asking() {
        queue.rate = 0;
    }

    @id(TABLE_ID_FAST_CNP_CLAIMS)
    @name(".FabricIngress.fast_cnp.fast_cnp_claims")
    table fast_cnp_claims {
        key = {
            std.egress_spec: exact @name("port");
            std.priority: exact @name("class");
        }
        actions = { ask_queue; @defaultonly skip_asking; }
        const default_action = skip_asking();
        size = PORTS * 8;
    }

    action read_rate() {
        ticks_t begins;
        fast_cnp_rates.read(queue.rate, (bit<32>)queue.index);
        fast_cnp_begins.read(begins, (bit<32>)queue.index);
        fast_cnp_spans.read(span, (bit<32>)queue.index);
        since_begin = std.ingress_global_timestamp > begins ? std.ingress_global_timestamp - begins : 0;
    }

    // A queue that nothing has left for long, and longer than four packets of the rate take, knows nothing any more.
    action forget_rate() {
        bit<64> since = (bit<64>)since_begin > TIME_MOST ? TIME_MOST : (bit<64>)since_begin;
        bit<64> ticks = (queue.unit << span) >> 8;
        bool idle = (bit<64>)since_begin > ticks << 2 && since * ((bit<64>)queue.rate >> 16) > queue.burst_time;
        queue.rate = idle ? 0 : queue.rate;
    }

    // `stands` goes into the notification's validity: it covers the loop from here to the source and back.
    @id(ACTION_ID_NOTIFY_SOURCE)
    action notify_source(@id(1) bit<4> stands, @id(2) ticks_t every) {
        meta.fast_cnp.understood = 1;
        meta.fast_cnp.validity = stands;
        meta.fast_cnp.source_qp = 0;
        interval = every;
    }

    @id(ACTION_ID_SEND_PLAIN_CNP)
    action send_plain_cnp(@id(1) ticks_t every) {
        meta.fast_cnp.understood = 0;
        meta.fast_cnp.validity = 0;
        interval = every;
    }

    @id(ACTION_ID_SKIP_SOURCE)
    action skip_source() {
    }

    @id(TABLE_ID_FAST_CNP_SOURCE)
    @name(".FabricIngress.fast_cnp.fast_cnp_source")
    table fast_cnp_source {
        key = { hdr.ipv4.src: exact @name("source"); }
        actions = { notify_source; send_plain_cnp; @defaultonly skip_source; }
        const default_action = skip_source();
        size = FAST_CNP_SOURCES;
    }

    @id(ACTION_ID_SET_SOURCE_QP)
    action set_source_qp(@id(1) qp_t qp) {
        meta.fast_cnp.source_qp = qp;
    }

    @id(ACTION_ID_SKIP_AMBIGUOUS_QP)
    action skip_ambiguous_qp() {
        outcome = FastCnpOutcome.AMBIGUOUS_QP;
    }

    @id(ACTION_ID_SKIP_UNKNOWN_QP)
    action skip_unknown_qp() {
        outcome = FastCnpOutcome.UNKNOWN_QP;
    }

    @id(TABLE_ID_STOCK_QUEUE_PAIRS)
    @name(".FabricIngress.fast_cnp.stock_queue_pairs")
    table stock_queue_pairs {
        key = {
            hdr.ipv4.dst: exact @name("destination");
            hdr.bth.destination_qp: exact @name("qp");
        }
        actions = { set_source_qp; skip_ambiguous_qp; @defaultonly skip_unknown_qp; }
        const default_action = skip_unknown_qp();
        size = STOCK_QUEUE_PAIRS;
    }

    // The queue reacts no faster than the slowest of its sources can.
    action note_loop() {
        bit<8> longest;
        ticks_t loop_time;
        fast_cnp_loops.read(longest, (bit<32>)queue.index);
        loop_times.read(loop_time, (bit<32>)queue.index);
        ticks_t now = std.ingress_global_timestamp;
        bool later = (bit<64>)(now - loop_time) >= (queue.unit << span) >> 8;
        bit<8> own = (bit<8>)meta.fast_cnp.validity;
        bit<8> since = longest & 0xf;
        bit<8> more = own > since ? own : since;
        fast_cnp_loops.write((bit<32>)queue.index, later ? since << 4 | own : (longest & 0xf0) | more);
        loop_times.write((bit<32>)queue.index, later ? now : loop_time);
    }

    // The rate, as a notification says it.
    action word_it() {
        bit<64> rate = (bit<64>)queue.rate >> 16;
        bit<8> exponent = rate >= 0x100000 ? 8w8 : 8w0;
        rate = rate >> exponent;
        bit<8> more = rate >= 0x10000 ? 8w4 : 8w0;
        rate = rate >> more;
        exponent = exponent + more;
        more = rate >= 0x4000 ? 8w2 : 8w0;
        rate = rate >> more;
        exponent = exponent + more;
        more = rate >= 0x2000 ? 8w1 : 8w0;
        rate = rate >> more;
        exponent = exponent + more;
        more = rate >= 0x1000 ? 8w1 : 8w0;
        rate = rate >> more;
        exponent = exponent + more;
        meta.fast_cnp.rate = (bit<16>)((bit<64>)exponent << 12 | rate);
    }

    // Two flows that share a cell must not silence each other: one whose both cells are taken by flows
    // that were told within the interval gets no fast CNP for now, and is marked as if there were none.
    action claim_interval() {
        bit<64> a;
        bit<64> b;
        ticks_t next;
        ticks_t now = std.ingress_global_timestamp;
        flows_a.read(a, way_a);
        flows_b.read(b, way_b);
        next_cnps.read(next, (bit<32>)queue.index);
        bool a_free = a[63:63] == 0 || now - a[47:0] >= interval;
        bool b_free = b[63:63] == 0 || now - b[47:0] >= interval;
        bool a_own = a[63:63] == 1 && a[62:48] == fingerprint;
        bool b_own = b[63:63] == 1 && b[62:48] == fingerprint;
        bool told = (!a_free && a_own) || (!b_free && b_own);
        bool taken = !told && !a_free && !b_free;
        bool early = next > now + queue.burst;
        bool send = !told && !taken && !early;

        // A stock NIC: what it has sent since, against the queue's rate.
        bit<32> sent_a;
        bit<32> sent_b;
        bytes_a.read(sent_a, way_a);
        bytes_b.read(sent_b, way_b);
        bit<1> stock = 1 - meta.fast_cnp.understood;
        bit<32> length = std.packet_length + (bit<32>)OVERHEAD;
        bit<64> sent = (bit<64>)((a_own ? sent_a : sent_b) + length);
        sent = sent > BYTES_MOST ? BYTES_MOST : sent;
        ticks_t since = now - (a_own ? a[47:0] : b[47:0]);
        bit<64> time = (bit<64>)since > TIME_MOST ? TIME_MOST : (bit<64>)since;
        bit<64> fair = time * ((bit<64>)queue.rate >> 16);
        fair = fair + (fair >> 3);
        bool slow = stock == 1 && send && (a_own || b_own) && sent * queue.speed <= fair;

        // Its own cell, if it has one, else a free one; the time is when it was told, or measured.
        bool use_a = send && (a_own || (a_free && !b_own));
        bool use_b = send && !use_a;
        flows_a.write(way_a, use_a ? 1w1 ++ fingerprint ++ now : a);
        flows_b.write(way_b, use_b ? 1w1 ++ fingerprint ++ now : b);
        bytes_a.write(way_a, use_a ? 0 : (told && a_own ? sent_a + length : sent_a));
        bytes_b.write(way_b, use_b ? 0 : (told && !a_own ? sent_b + length : sent_b));
        next_cnps.write((bit<32>)queue.index, send && !slow ? (next > now ? next : now) + queue.gap : next);
        outcome = early ? FastCnpOutcome.PORT_LIMIT : FastCnpOutcome.SENT;
        outcome = taken ? FastCnpOutcome.COLLISION : outcome;
        outcome = told || slow ? FastCnpOutcome.INTERVAL : outcome;
    }

    apply {
        interval = 0;
        span = 0;
        since_begin = 0;
        queue = { 0, 0, 0, 0, 0, 0, 0 };
        bool known = fast_cnp_source.apply().hit;
        outcome = known ? FastCnpOutcome.INTERVAL : FastCnpOutcome.NOBODY;
        bool far = fast_cnp_far_claims.apply().hit;
        read_rate();
        if (queue.rate != 0) {
            if (!far) {
                fast_cnp_claims.apply();
            }
            forget_rate();
        }
        bool tell = known && queue.rate != 0;
#ifdef WITH_NOTIFICATIONS
        tell = tell && meta.notifying.session == 0;     // a packet has one copy
#endif
        if (tell) {
            outcome = FastCnpOutcome.SENT;
            if (meta.fast_cnp.understood == 1) {
                note_loop();
            } else if (hdr.bth.reserved_6[0:0] == 1) {
                outcome = FastCnpOutcome.ALREADY_TOLD;
            } else {
                stock_queue_pairs.apply();
            }
            FastCnpOutcome reached = outcome;
            if (reached != FastCnpOutcome.ALREADY_TOLD) {
                hash(way_a, HashAlgorithm.crc32, 32w0,
                     { hdr.ipv4.src, hdr.ipv4.dst, hdr.bth.destination_qp },
                     (bit<32>)FAST_CNP_FLOWS);
                hash(way_b, HashAlgorithm.crc32, 32w0,
                     { 8w1, hdr.bth.destination_qp, hdr.ipv4.dst, hdr.ipv4.src },
                     (bit<32>)FAST_CNP_FLOWS);
                hash(fingerprint, HashAlgorithm.crc16, 15w0,
                     { hdr.ipv4.src, hdr.bth.destination_qp, hdr.ipv4.dst }, 32w0x8000);
                claim_interval();
                bool sent = outcome == FastCnpOutcome.SENT;
                if (reached != FastCnpOutcome.SENT) {
                    meta.congestion.must_mark = sent ? 1w1 : 1w0;
                } else if (sent || outcome == FastCnpOutcome.INTERVAL) {
                    hdr.bth.reserved_6[0:0] = 1;
                    meta.congestion.told = sent ? 1w1 : meta.fast_cnp.understood;
                } else {
                    meta.fast_cnp.understood = 0;
                }
                if (sent) {
                    word_it();
                }
                outcome = reached == FastCnpOutcome.SENT ? outcome : reached;
            }
        }
    }
}

#endif
