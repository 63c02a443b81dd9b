// Decides what becomes of a packet that asks for more, as it comes to its queue.
//
//   [ bolt_queue ]    the port's line, and for a class whose packets ask, its numbers
//   renew_supply      supply' = min(supply + line x time - packet, a packet)
//   see_queue         what has come to the queue and not left
//   then, of a packet that asks: notified, promised, granted or refused (BoltOutcome)
//
// The rule is the paper's algorithm 1. There a token of supply is a packet of the line's MTU, and so it is here.

#ifndef WEFT_BOLT_ASK_MORE_P4
#define WEFT_BOLT_ASK_MORE_P4

#include "../../include/constants.p4"
#include "../../include/headers.p4"
#include "supply.p4"

control AskMore(inout headers_t hdr, inout local_metadata_t meta, inout standard_metadata_t std) {
    @id(REGISTER_ID_BOLT_SUPPLY)
    register<bit<64>>(PORTS) bolt_supply;
    @id(REGISTER_ID_BOLT_SUPPLY_AT)
    register<bit<48>>(PORTS) bolt_supply_at;    // ticks
    @id(REGISTER_ID_BOLT_PROMISED)
    register<bit<16>>(PORTS) bolt_promised;     // packets that flows which end leave to others
    @id(COUNTER_ID_BOLT)
    counter(PORTS * 8, CounterType.packets) bolt;   // by port and BoltOutcome

    bit<64> line = 0;           // bytes in a tick, in 1/2^32
    bit<48> ticks_most = 0;     // in which it carries the largest debt and a packet
    bit<64> packet_q32 = 0;     // a packet of the MTU, in 1/2^32 bytes
    bit<1>  grants = 0;
    bit<32> unit = 0;           // of depths, in bytes
    bit<32> queue_most = 0;     // bytes that take BOLT_DRAINS_MOST
    bit<32> threshold = 0;      // bytes
    bit<64> ns_per_byte = 0;    // of the fabric, in 1/2^32
    bit<64> supply = 0;
    bit<32> waits = 0;
    bit<32> length = 0;
    BoltOutcome outcome = BoltOutcome.SILENT;

    // Of a class whose packets do not ask: they use the line.
    @id(ACTION_ID_SUPPLY_PORT)
    action supply_port(@id(1) bit<64> drain, @id(2) bit<48> longest, @id(3) bit<32> mtu) {
        line = drain;
        ticks_most = longest;
        packet_q32 = (bit<64>)mtu << 32;
    }

    @id(ACTION_ID_GRANT_QUEUE)
    action grant_queue(@id(1) bit<64> drain, @id(2) bit<48> longest, @id(3) bit<32> mtu, @id(4) bit<32> depth_unit,
                       @id(5) bit<32> long_queue, @id(6) bit<48> drain_ns, @id(7) bit<32> most) {
        line = drain;
        ticks_most = longest;
        packet_q32 = (bit<64>)mtu << 32;
        grants = 1;
        unit = depth_unit;
        threshold = long_queue;
        ns_per_byte = (bit<64>)drain_ns;
        queue_most = most;
    }

    @id(ACTION_ID_SKIP_SUPPLY)
    action skip_supply() { }

    // Ports to other switches and hosts, with all of their classes.
    @id(TABLE_ID_BOLT_QUEUE)
    table bolt_queue {
        key = {
            std.egress_spec: exact @name("port");
            std.priority: exact @name("class");
        }
        actions = { supply_port; grant_queue; @defaultonly skip_supply; }
        const default_action = skip_supply();
        size = PORTS * 8;
    }

    action renew_supply() {
        bit<48> before;
        bit<48> now = std.ingress_global_timestamp;
        bolt_supply.read(supply, (bit<32>)std.egress_spec);
        bolt_supply_at.read(before, (bit<32>)std.egress_spec);
        supply = before == 0 ? BOLT_NO_SUPPLY + packet_q32 : supply;
        bit<48> passed = now - before;
        passed = passed > ticks_most ? ticks_most : passed;
        supply = supply + (bit<64>)passed * line;
        bit<64> demand = (bit<64>)length << 32;
        supply = supply > demand ? supply - demand : 0;
        supply = supply > BOLT_NO_SUPPLY + packet_q32 ? BOLT_NO_SUPPLY + packet_q32 : supply;
        bolt_supply_at.write((bit<32>)std.egress_spec, now);
    }

    action see_queue() {
        bit<32> came;
        bit<64> left;
        bit<32> cell = (bit<32>)std.egress_spec << 3 | (bit<32>)std.priority;
        bolt_came.read(came, cell);
        bolt_left.read(left, cell);
        waits = (came - left[63:32]) + left[31:0] * unit;
        bolt_came.write(cell, came + length);
    }

    action report_queue() {
        bit<64> drains = (bit<64>)(waits > queue_most ? queue_most : waits) * ns_per_byte;
        drains = (drains >> 32) > BOLT_DRAINS_MOST ? BOLT_DRAINS_MOST : drains >> 32;
        meta.notifying.type = (bit<4>)NotificationType.QUEUE;
        meta.notifying.severity = drains[19:16];
        meta.notifying.queue = drains[15:0];
        meta.notifying.hops = 0;
        meta.notifying.validity = 0;
        meta.notifying.port = 3w0 ++ std.egress_spec;
        meta.notifying.destination = hdr.ipv4.dst;
        meta.notifying.destination_qp = hdr.bth.destination_qp;
        meta.notifying.body = 4;
        meta.notifying.to = hdr.ipv4.src;
        meta.notifying.session = BOLT_SESSION;
    }

    action grant_or_promise() {
        bit<16> promised;
        bit<32> word = hdr.telemetry_word.value;
        bolt_promised.read(promised, (bit<32>)std.egress_spec);
        bool asks = word & GRANT_MORE != 0;
        bool ends = word & (GRANT_LAST | GRANT_FIRST) == GRANT_LAST;
        bool silent = word & GRANT_LAST != 0 || !asks;
        bool taken = !silent && promised != 0;
        bool granted = !silent && !taken && supply >= BOLT_NO_SUPPLY + packet_q32;
        outcome = silent ? BoltOutcome.SILENT : BoltOutcome.REFUSED;
        outcome = granted ? BoltOutcome.GRANTED : outcome;
        outcome = taken ? BoltOutcome.TAKEN : outcome;
        outcome = ends ? BoltOutcome.PROMISED : outcome;
        bit<16> more = promised < BOLT_PROMISED_MOST ? promised + 1 : promised;
        promised = ends ? more : promised;
        promised = taken ? promised - 1 : promised;
        supply = granted ? supply - packet_q32 : supply;
        bolt_promised.write((bit<32>)std.egress_spec, promised);
    }

    apply {
        if (bolt_queue.apply().hit) {
            length = (std.packet_length < BOLT_FRAME_LEAST ? BOLT_FRAME_LEAST : std.packet_length) + BOLT_OVERHEAD;
            renew_supply();
            if (grants == 1) {
                see_queue();
                if (hdr.telemetry.isValid() && hdr.telemetry_word.isValid() && hdr.bth.isValid() &&
                    hdr.telemetry.kind == TelemetryKind.COLLECTS && hdr.telemetry.format == TELEMETRY_GRANTS) {
                    bit<32> cleared = 0;
                    bit<32> set = 0;
                    if (waits >= threshold) {
                        cleared = GRANT_MORE;
                        outcome = BoltOutcome.QUEUED;
                        if (hdr.telemetry_word.value & GRANT_QUEUED == 0 && meta.notifying.session == 0) {
                            set = GRANT_QUEUED;
                            outcome = BoltOutcome.NOTIFIED;
                            report_queue();
                        }
                    } else {
                        grant_or_promise();
                        cleared = outcome == BoltOutcome.REFUSED ? GRANT_MORE : 0;
                    }
                    hdr.telemetry_word.value = hdr.telemetry_word.value & ~cleared | set;
                    hdr.telemetry.hops = hdr.telemetry.hops + 1;
                    hdr.udp.checksum = 0;
                    bolt.count((bit<32>)std.egress_spec << 3 | (bit<32>)(bit<8>)outcome);
                }
            }
            bolt_supply.write((bit<32>)std.egress_spec, supply);
        }
    }
}

#endif
