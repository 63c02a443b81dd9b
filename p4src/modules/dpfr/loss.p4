// Ways that lose packets: each end counts what it sends and what it gets, and heartbeats carry the one to the other.
//
// A way has a score. A packet that was lost adds `weight` to it, one that came takes 1 off. It stays at 0 as long as fewer
// than one in `weight` is lost, and climbs if more are, the faster the more. At `limit` the way loses too many packets, and
// its other end hears so until the score is 0 again. One heartbeat adds `most` at most: what is lost at once, in an
// interruption that is over before anybody noticed, is no sign of a link that goes on losing packets.

#ifndef WEFT_DPFR_LOSS_P4
#define WEFT_DPFR_LOSS_P4

// Packets that left by a port. Egress runs on several threads in BMv2, each with ports of its own.
@id(REGISTER_ID_DPFR_SENT)
register<bit<32>>(PORTS) dpfr_sent;

// By way, at the last heartbeat: what its other end had sent 32, what had come 32.
@id(REGISTER_ID_DPFR_COMPARED)
register<bit<64>>(DPFR_WAYS) dpfr_compared;

// By way: dpfr_compared holds 1, what the other end is told 4, score 18; since the score was 0: lost 17, sent 24.
@id(REGISTER_ID_DPFR_LOSSES)
register<bit<64>>(DPFR_WAYS) dpfr_losses;

@id(REGISTER_ID_DPFR_MENDING)
register<bit<40>>(DPFR_WAYS) dpfr_mending;          // how often it was degraded of late 8, when it may be used again 32

// Warnings of a degraded way: next destination behind it 16, how often all of them 16, next round 32.
@id(REGISTER_ID_DPFR_WARNING)
register<bit<64>>(DPFR_WAYS) dpfr_warning;

const bit<8> RELAPSES_MOST = 6;
const bit<32> OVERTAKEN_MOST = 4096;    // packets by which a heartbeat may be late

// What leaves here is on the wire, in this order: drops in queues come before.
control CountSent(inout headers_t hdr, in local_metadata_t meta, in standard_metadata_t std) {
    bit<32> packets;

    action count_packet() {
        dpfr_sent.read(packets, (bit<32>)std.egress_port);
        packets = packets + 1;
        dpfr_sent.write((bit<32>)std.egress_port, packets);
    }

    apply {
        if (std.egress_spec != DROP_PORT) {
            count_packet();
            if (std.ingress_port == TICKER_PORT && meta.dpfr.on == 1 && hdr.notification.isValid() &&
                hdr.notification.type == NotificationType.HEARTBEAT) {
                hdr.notification.destination = packets;
            }
        }
    }
}

// About -log2 of the share that was lost, rounded up: 1 for half or more, to 14.
control SeverityOf(in bit<32> lost, in bit<32> sent, out bit<4> severity) {
    apply {
        bit<32> share = lost;
        severity = 1;
        if (share << 8 < sent) {
            severity = severity + 8;
            share = share << 8;
        }
        if (share << 4 < sent) {
            severity = severity + 4;
            share = share << 4;
        }
        if (share << 2 < sent) {
            severity = severity + 2;
            share = share << 2;
        }
        if (share << 1 < sent) {
            severity = severity + 1;
        }
        severity = severity == 0 || severity > 14 ? 4w14 : severity;
    }
}

// A heartbeat says how many packets were sent by its way; compared with how many came.
control WeighLosses(in headers_t hdr, in local_metadata_t meta, in standard_metadata_t std) {
    SeverityOf() severity_of;

    apply {
        bit<64> before;
        bit<64> losses;
        bit<32> received;
        dpfr_compared.read(before, (bit<32>)meta.dpfr.way);
        dpfr_losses.read(losses, (bit<32>)meta.dpfr.way);
        dpfr_received.read(received, (bit<32>)meta.dpfr.way);
        bit<32> sent = hdr.notification.destination - before[63:32];
        bit<32> came = received - before[31:0];
        bit<32> lost = sent - came;
        bit<32> behind = before[63:32] - hdr.notification.destination;
        bit<4> severity = losses[62:59];
        bit<32> score = 14w0 ++ losses[58:41];
        bit<32> lost_lately = 15w0 ++ losses[40:24];
        bit<32> sent_lately = 8w0 ++ losses[23:0];
        bool known = losses[63:63] == 1;
        // An other end that began anew counts from 0. One heartbeat that another one overtook says nothing new.
        bool overtaken = known && behind != 0 && behind < OVERTAKEN_MOST;
        if (known && sent[31:31] == 0 && came[31:31] == 0) {
            // Fewer than none: such as the heartbeat before had overtaken, or twins.
            bool late = lost[31:31] == 1;
            bit<32> off = late ? came - sent : lost;
            off = off > 0xffff ? 32w0xffff : off;
            bit<32> worse = late ? 32w0 : off * (bit<32>)meta.dpfr.weight;
            bit<32> better = late ? off * (bit<32>)meta.dpfr.weight + sent : sent;
            if (worse > better) {
                worse = worse - better > meta.dpfr.most ? meta.dpfr.most : worse - better;
                score = score + worse > meta.dpfr.limit ? meta.dpfr.limit : score + worse;
            } else {
                better = better - worse;
                score = score > better ? score - better : 32w0;
            }
            sent_lately = sent_lately + (sent > 0x3fffff ? 32w0x3fffff : sent);
            if (!late && off != 0) {
                lost_lately = lost_lately + off;
                dpfr.count((bit<32>)std.ingress_port << 4 | (bit<32>)(bit<8>)DpfrOutcome.GAPS);
            }
            if (sent_lately[23:23] == 1 || lost_lately[16:16] == 1) {
                sent_lately = sent_lately >> 1;
                lost_lately = lost_lately >> 1;
            }
            if (score == 0) {
                severity = 0;
                sent_lately = 0;
                lost_lately = 0;
            } else if (score == meta.dpfr.limit) {
                if (severity == 0) {
                    dpfr.count((bit<32>)std.ingress_port << 4 | (bit<32>)(bit<8>)DpfrOutcome.LOSSY);
                }
                severity_of.apply(lost_lately, sent_lately, severity);
            }
        }
        if (!overtaken) {
            dpfr_compared.write((bit<32>)meta.dpfr.way, hdr.notification.destination ++ received);
        }
        dpfr_losses.write((bit<32>)meta.dpfr.way,
                          1w1 ++ severity ++ score[17:0] ++ lost_lately[16:0] ++ sent_lately[23:0]);
    }
}

// What was lost while a way was dead is no sign of how good it is: counting begins anew with the next heartbeat.
control ForgetCounts(in way_t way) {
    apply {
        bit<64> losses;
        dpfr_losses.read(losses, (bit<32>)way);
        dpfr_losses.write((bit<32>)way, 1w0 ++ losses[62:0]);
    }
}

// A way whose other end says that it loses packets is used only where there is no other, until that has said for long
// enough that it does not: longer with each relapse.
control AvoidLossy(in dpfr_t state, in port_t port, in bit<4> far) {
    apply {
        ways_t degraded;
        ways_t own = (ways_t)1 << state.way;
        dpfr_degraded.read(degraded, 0);
        bool was = degraded & own != 0;
        bool now = far != 0 && far != DEAF;
        if (was || now) {
            bit<40> mending;
            dpfr_mending.read(mending, (bit<32>)state.way);
            bit<8> often = mending[39:32];
            bit<32> since = state.round - mending[31:0];
            if (now) {
                if (!was) {
                    bool soon = mending[31:0] != 0 && since < state.hold << 7;
                    often = soon ? (often == RELAPSES_MOST ? often : often + 1) : 8w0;
                    dpfr_degraded.write(0, degraded | own);
                    dpfr_warning.write((bit<32>)state.way, 0);
                    dpfr.count((bit<32>)port << 4 | (bit<32>)(bit<8>)DpfrOutcome.DEGRADED);
                }
                dpfr_mending.write((bit<32>)state.way, often ++ (state.round + (state.hold << often)));
            } else if (since[31:31] == 0) {
                dpfr_degraded.write(0, degraded & ~own);
                dpfr.count((bit<32>)port << 4 | (bit<32>)(bit<8>)DpfrOutcome.RECOVERED);
            }
        }
    }
}

// While a way is degraded, the destinations behind it are gone through, one a period: `copies` times, and again after
// each `refresh`. `index` is the one whose turn it is in dpfr_behind.
control WarnOfLossy(in dpfr_t state, in bit<16> destinations, out bool turn, out bit<16> index) {
    apply {
        ways_t degraded;
        turn = false;
        index = 0;
        dpfr_degraded.read(degraded, 0);
        if (destinations != 0 && degraded & ((ways_t)1 << state.way) != 0) {
            bit<64> warning;
            dpfr_warning.read(warning, (bit<32>)state.way);
            bit<32> wait = state.round - warning[31:0];
            if (wait[31:31] == 0) {
                turn = true;
                index = warning[63:48];
                bit<16> next = index + 1;
                bit<16> passes = warning[47:32];
                round_t later = warning[31:0];
                if (next >= destinations) {
                    next = 0;
                    passes = passes < state.copies ? passes + 1 : passes;
                    later = passes < state.copies ? later : state.round + state.refresh;
                }
                dpfr_warning.write((bit<32>)state.way, next ++ passes ++ later);
            }
        }
    }
}

#endif
