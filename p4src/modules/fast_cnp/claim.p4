// Decides whether a packet that met a long queue makes a CNP, and for whom.
//
//   signalled by a switch before this one? -> no
//   [ fast_cnp_source ] -> reads notifications, or has a stock NIC -> [ stock_queue_pairs ]
//   [ fast_cnp_severity ] -> how far the senders are above what the queue drains
//   claim_interval        -> not within the flow's interval, and within the port's limit

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

// What becomes of a packet that met a queue above its low threshold; the index of its counter.
enum bit<8> FastCnpOutcome {
    SENT            = 0,
    INTERVAL        = 1,    // the flow has been told a moment ago
    ALREADY_TOLD    = 2,    // by a switch before this one
    PORT_LIMIT      = 3,    // the port has sent as many as it may
    COLLISION       = 4,    // other flows hold both cells that this one may use
    NOBODY          = 5,    // a source that is not in the table
    UNKNOWN_QP      = 6,    // of a stock NIC: the source's queue pair is not known
    AMBIGUOUS_QP    = 7     // of a stock NIC: it might be one of several
}

control ClaimCnp(inout headers_t hdr, inout local_metadata_t meta, in standard_metadata_t std,
                 in watched_queue_t queue, out FastCnpOutcome outcome) {
    ticks_t interval;
    bit<32> way_a;
    bit<32> way_b;
    bit<15> fingerprint;

    @id(REGISTER_ID_NEXT_CNPS)
    register<ticks_t>(WATCHED) next_cnps;
    @id(REGISTER_ID_FLOWS_A)
    register<bit<64>>(FAST_CNP_FLOWS) flows_a;      // 1, fingerprint 15, when it was told 48
    @id(REGISTER_ID_FLOWS_B)
    register<bit<64>>(FAST_CNP_FLOWS) flows_b;

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
        outcome = FastCnpOutcome.NOBODY;
    }

    @id(TABLE_ID_FAST_CNP_SOURCE)
    @name(".FabricEgress.fast_cnp.fast_cnp_source")
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
    @name(".FabricEgress.fast_cnp.stock_queue_pairs")
    table stock_queue_pairs {
        key = {
            hdr.ipv4.dst: exact @name("destination");
            hdr.bth.destination_qp: exact @name("qp");
        }
        actions = { set_source_qp; skip_ambiguous_qp; @defaultonly skip_unknown_qp; }
        const default_action = skip_unknown_qp();
        size = STOCK_QUEUE_PAIRS;
    }

    @id(ACTION_ID_SET_SEVERITY)
    action set_severity(@id(1) bit<4> severity) {
        meta.fast_cnp.severity = severity;
    }

    @id(TABLE_ID_FAST_CNP_SEVERITY)
    @name(".FabricEgress.fast_cnp.fast_cnp_severity")
    table fast_cnp_severity {
        key = {
            queue.deep: exact @name("deep");
            queue.growth: range @name("growth");
        }
        actions = { set_severity; }
        default_action = set_severity(0);
        size = 64;
    }

    // Two flows that share a cell must not silence each other: one whose both cells are taken by flows
    // that were told within the interval gets no fast CNP for now, and is marked as if there were none.
    action claim_interval() {
        bit<64> a;
        bit<64> b;
        ticks_t next;
        ticks_t now = std.egress_global_timestamp;
        flows_a.read(a, way_a);
        flows_b.read(b, way_b);
        next_cnps.read(next, (bit<32>)queue.index);
        bool a_free = a[63:63] == 0 || now - a[47:0] >= interval;
        bool b_free = b[63:63] == 0 || now - b[47:0] >= interval;
        bool told = (!a_free && a[62:48] == fingerprint) || (!b_free && b[62:48] == fingerprint);
        bool taken = !a_free && !b_free;
        bool early = next > now + queue.burst;
        bool send = !told && !taken && !early;
        flows_a.write(way_a, send && a_free ? 1w1 ++ fingerprint ++ now : a);
        flows_b.write(way_b, send && !a_free ? 1w1 ++ fingerprint ++ now : b);
        next_cnps.write((bit<32>)queue.index, send ? (next > now ? next : now) + queue.gap : next);
        outcome = early ? FastCnpOutcome.PORT_LIMIT : FastCnpOutcome.SENT;
        outcome = taken ? FastCnpOutcome.COLLISION : outcome;
        outcome = told ? FastCnpOutcome.INTERVAL : outcome;
    }

    apply {
        outcome = FastCnpOutcome.SENT;
        interval = 0;
        if (hdr.bth.reserved_6[0:0] == 1) {
            outcome = FastCnpOutcome.ALREADY_TOLD;
        } else if (fast_cnp_source.apply().hit) {
            if (meta.fast_cnp.understood == 0) {
                stock_queue_pairs.apply();
            }
            if (outcome == FastCnpOutcome.SENT) {
                fast_cnp_severity.apply();
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
                if (sent || outcome == FastCnpOutcome.INTERVAL) {
                    hdr.bth.reserved_6[0:0] = 1;
                    meta.congestion.told = meta.fast_cnp.understood;
                }
                if (sent) {
                    meta.congestion.must_mark = 1 - meta.fast_cnp.understood;
                }
            }
        }
    }
}

#endif
