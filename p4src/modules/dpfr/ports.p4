// Ports that lose their carrier, where the target reports it: a packet comes in then by the ticker's port, a
// notification of type PORT_STATE. A port to a switch is dead at once, without waiting for heartbeats. Of a port to a
// host its senders are notified, since no other way leads to it.

#ifndef WEFT_DPFR_PORTS_P4
#define WEFT_DPFR_PORTS_P4

#define DPFR_SENDERS 1024
#define DPFR_SENDERS_SESSION 521            // clone session to RECIRCULATION_PORT

// Who was notified recently that a host is behind such a port. Two who share a cell take turns, once a round at most.
@id(REGISTER_ID_DPFR_SENDERS)
register<bit<48>>(DPFR_SENDERS) dpfr_senders;           // port 16, sender 32

@id(REGISTER_ID_DPFR_SENDERS_TOLD)
register<bit<40>>(DPFR_SENDERS) dpfr_senders_told;      // how often 8, in which round last 32

// A host's port is remembered even while fast reroute is off: the target reports it only once.
control TakePortState(in headers_t hdr, inout local_metadata_t meta) {
    FindDead() find_dead;

    @id(ACTION_ID_SET_DPFR_LINK)
    action set_dpfr_link(@id(1) way_t way) {
        meta.dpfr.way = way;
    }

    @id(ACTION_ID_SKIP_DPFR_LINK)
    action skip_dpfr_link() { }

    // Ports to switches. dpfr_way has them too, but for the port that a packet came by.
    @id(TABLE_ID_DPFR_LINK)
    table dpfr_link {
        key = { hdr.notification.destination_qp: exact @name("port"); }
        actions = { set_dpfr_link; @defaultonly skip_dpfr_link; }
        const default_action = skip_dpfr_link();
        size = DPFR_WAYS;
    }

    apply {
        port_t port = hdr.notification.destination_qp[8:0];
        bool up = hdr.notification.queue != 0;
        DpfrOutcome outcome = up ? DpfrOutcome.GOT_CARRIER : DpfrOutcome.LOST_CARRIER;
        dpfr.count((bit<32>)port << 4 | (bit<32>)(bit<8>)outcome);
        bool between = dpfr_link.apply().hit;
        bit<1> dark = up || between ? 1w0 : 1w1;
        dpfr_dark.write((bit<32>)port, dark);
        if (between && meta.dpfr.on == 1 && !up) {
            // As if nothing had come for too long. Heartbeats say when it is up again.
            ways_t down;
            dpfr_heard.write((bit<32>)meta.dpfr.way, meta.dpfr.round - meta.dpfr.misses - 1);
            dpfr_down.read(down, 0);
            if (down & ((ways_t)1 << meta.dpfr.way) == 0) {
                find_dead.apply(meta.dpfr, port, down);
            }
        }
    }
}

// A packet for a host that is gone is dropped here, and its sender is notified: a few times at once, and again while it
// goes on sending. `destination` is the host's address then, and there is no number of a leaf.
control TellSender(in headers_t hdr, inout local_metadata_t meta, inout standard_metadata_t std) {
    bit<32> cell;

    action find_cell() {
        hash(cell, HashAlgorithm.crc32, 32w0, { hdr.ipv4.src, std.egress_spec, 7w0 }, 32w1024);
    }

    action tell_sender() {
        meta.notifying.type = (bit<4>)NotificationType.LINK_DOWN;
        meta.notifying.severity = 15;
        meta.notifying.hops = 0;
        meta.notifying.validity = meta.dpfr.validity;
        meta.notifying.port = 3w0 ++ std.egress_spec;
        meta.notifying.destination = hdr.ipv4.dst;
        meta.notifying.destination_qp = 0;
        meta.notifying.queue = 0;
        meta.notifying.to = hdr.ipv4.src;
        meta.notifying.session = DPFR_SENDERS_SESSION;
        dpfr.count((bit<32>)std.egress_spec << 4 | (bit<32>)(bit<8>)DpfrOutcome.NOTIFIED);
    }

    apply {
        bit<1> dark = 0;
        if (meta.dpfr.on == 1 && meta.drop_reason == DropReason.FORWARDED && hdr.ipv4.isValid()) {
            dpfr_dark.read(dark, (bit<32>)std.egress_spec);
        }
        if (dark == 1) {
            dpfr.count((bit<32>)std.egress_spec << 4 | (bit<32>)(bit<8>)DpfrOutcome.UNPLUGGED);
            // Not of notifications: nobody sent them who would have to know.
            if (meta.notifying.datagram == 0 && meta.notifying.session == 0) {
                bit<48> who;
                bit<40> told;
                bit<48> own = 7w0 ++ std.egress_spec ++ hdr.ipv4.src;
                find_cell();
                dpfr_senders.read(who, cell);
                dpfr_senders_told.read(told, cell);
                bit<32> since = meta.dpfr.round - told[31:0];
                bit<8> often = who == own && since <= meta.dpfr.refresh ? told[39:32] : 0;
                bool enough = (bit<16>)often >= meta.dpfr.copies;
                if (since >= (enough ? meta.dpfr.refresh : 32w1)) {
                    often = enough ? often : often + 1;
                    dpfr_senders.write(cell, own);
                    dpfr_senders_told.write(cell, often ++ meta.dpfr.round);
                    tell_sender();
                }
            }
            meta.drop_reason = DropReason.NO_NEXT_HOP;
            mark_to_drop(std);
        }
    }
}

#endif
