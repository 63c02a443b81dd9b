// Fast CNP: the switch that sees a queue grow signals the source itself, a receiver's round trip before
// the receiver could. docs/fast-cnp.md explains it with numbers.
//
//   a data packet leaves a watched queue (egress)
//     -> WatchQueue   at which rate may everybody send who meets the queue?  fast_cnp/watch.p4
//   another one goes to it (ingress)
//     -> ClaimCnp     who sent it, may it have a CNP now?                    fast_cnp/claim.p4
//     -> SendCopy     a copy of the packet goes to the recirculation port    fast_cnp/make_cnp.p4
//   the copy (egress)
//     -> MakeCnp      becomes a CNP to the source                            fast_cnp/make_cnp.p4
//
// QueuePairs reports, in ingress, samples of stock NICs' connections: the controller learns from them
// to which queue pair such a NIC's CNP must go (fast_cnp/queue_pairs.p4).

#if HOOK == HOOK_PROFILE

#ifndef PROFILE
#define WITH_FAST_CNP 1
#endif
#ifdef WITH_FAST_CNP
#define WITH_PARAMETERS 1
#define WITH_HOST_GUARD 1
#define WITH_CONGESTION_SIGNAL 1
#endif

#elif defined(WITH_FAST_CNP)
#if HOOK == HOOK_TYPES

typedef bit<48> ticks_t;        // of the target's clock: microseconds or nanoseconds

const bit<8> FAST_CNP = 1;          // field list: from a packet to its copy that becomes a fast CNP
const bit<8> NOTHING = 2;           // field list: to a recirculated packet, whose other fields are set anew

// What a switch knows of a packet and its queue. Fields in the list FAST_CNP go along with the copy that
// becomes the CNP.
struct fast_cnp_t {
    @field_list(FAST_CNP, NOTHING) bit<1> made;     // this packet is such a copy
    @field_list(FAST_CNP) bit<4>      validity;
    @field_list(FAST_CNP) bit<12>     sequence;
    @field_list(FAST_CNP) bit<16>     rate;         // as a notification says it
    @field_list(FAST_CNP) qp_t        source_qp;    // 0: the source resolves the notification itself
    @field_list(FAST_CNP) port_t      port;
    @field_list(FAST_CNP) mac_addr_t  router_mac;
    @field_list(FAST_CNP) bit<6>      dscp;         // of CNPs
    @field_list(FAST_CNP) bit<16>     switch_id;
    bit<1>  on;                     // data, of a switch that tells sources
    bit<1>  understood;             // the source reads notifications, and hears of the queue if it has to slow down
}

#elif HOOK == HOOK_METADATA
    fast_cnp_t fast_cnp;

#elif HOOK == HOOK_METADATA_START
        meta.fast_cnp.made = 0;
        meta.fast_cnp.on = 0;
        meta.fast_cnp.understood = 0;

#elif HOOK == HOOK_CONTROLS

#include "fast_cnp/ids.p4"
#include "fast_cnp/watch.p4"
#include "fast_cnp/claim.p4"
#include "fast_cnp/make_cnp.p4"
#ifndef WITHOUT_QUEUE_PAIR_SAMPLES
#include "fast_cnp/queue_pairs.p4"
#endif

// Tables of the inner controls have absolute names, without that control's.
control TellSources(inout headers_t hdr, inout local_metadata_t meta,
                    inout standard_metadata_t std) {
    ClaimCnp() claim;
    SendCopy() send_copy;
    asked_queue_t queue;
    FastCnpOutcome outcome;

    @id(COUNTER_ID_FAST_CNPS)
    counter(PORTS * 8, CounterType.packets) fast_cnps;  // by port and FastCnpOutcome

    // Enables the mechanism, and says what it writes into every CNP.
    @id(ACTION_ID_ENABLE_FAST_CNP)
    action enable_fast_cnp(@id(1) bit<6> dscp, @id(2) bit<16> switch_id) {
        meta.fast_cnp.on = 1;
        meta.fast_cnp.dscp = dscp;
        meta.fast_cnp.switch_id = switch_id;
    }

    @id(ACTION_ID_DISABLE_FAST_CNP)
    action disable_fast_cnp() {
        meta.fast_cnp.on = 0;
    }

    @id(TABLE_ID_FAST_CNP_MODE)
    table fast_cnp_mode {
        actions = { enable_fast_cnp; disable_fast_cnp; }
        default_action = disable_fast_cnp();
    }

    apply {
        if (meta.drop_reason == DropReason.FORWARDED && hdr.bth.isValid() &&
            hdr.bth.opcode != BthOpcode.RC_ACKNOWLEDGE && hdr.bth.opcode != BthOpcode.CNP &&
            hdr.bth.opcode != BthOpcode.RC_READ_REQUEST) {
            fast_cnp_mode.apply();
            if (meta.fast_cnp.on == 1) {
                // Told by a switch before this one: it is not marked again.
                meta.congestion.told = hdr.bth.reserved_6[0:0];
                claim.apply(hdr, meta, std, queue, outcome);
                if (queue.rate != 0) {
                    if (outcome == FastCnpOutcome.SENT) {
                        send_copy.apply(meta, std, queue);
                    }
                    fast_cnps.count((bit<32>)std.egress_spec << 3 | (bit<32>)(bit<8>)outcome);
                }
            }
        }
    }
}

control FastCnp(inout headers_t hdr, inout local_metadata_t meta,
                inout standard_metadata_t std) {
    WatchQueue() watch;
    MakeCnp() make_cnp;
    watched_queue_t queue;

    apply {
        if (std.egress_port == RECIRCULATION_PORT && meta.fast_cnp.made == 1) {
            make_cnp.apply(hdr, meta);
        } else if (meta.fast_cnp.on == 1) {
            watch.apply(hdr, std, queue);
            // It came before its source had to slow down.
            if (queue.rate != queue.most && meta.fast_cnp.understood == 1) {
                hdr.bth.reserved_6[0:0] = 1;
                meta.congestion.told = 1;
            }
        }
    }
}

#elif HOOK == HOOK_INGRESS_INSTANCES
    CutCopy() cut_copy;
    TellSources() tell_sources;
#ifndef WITHOUT_QUEUE_PAIR_SAMPLES
    QueuePairs() queue_pairs;
#endif

#elif HOOK == HOOK_INGRESS_BEGIN
#ifdef WITH_NOTIFICATIONS
        if (meta.notifying.datagram == 0) {
            cut_copy.apply(std);
        }
#else
        cut_copy.apply(std);
#endif

#elif HOOK == HOOK_INGRESS_FORWARDED
        tell_sources.apply(hdr, meta, std);
#ifndef WITHOUT_QUEUE_PAIR_SAMPLES
        if (meta.drop_reason == DropReason.FORWARDED && hdr.bth.isValid()) {
            queue_pairs.apply(hdr, std);
        }
#endif

#elif HOOK == HOOK_EGRESS_INSTANCES
    FastCnp() fast_cnp;

#elif HOOK == HOOK_EGRESS
        fast_cnp.apply(hdr, meta, std);

#endif
#endif
