// Which destinations can't be reached by which way: notifications from neighbours, and to them.

#ifndef WEFT_DPFR_FAULTS_P4
#define WEFT_DPFR_FAULTS_P4

// By destination, the last notification from here: Telling 2, the switch that detected it 16, its number 12, round 32.
@id(REGISTER_ID_DPFR_TOLD)
register<bit<62>>(DPFR_DESTINATIONS) dpfr_told;

// One notification a round, whatever the number of ways that cause it, and one if it arrived by several. If several
// switches detected the same, one of them is enough. A recovery is reported only where the fault was.
// `name`: the notification's switch and number; 0: it is made here.
control MayTell(in dpfr_t state, in destination_t destination, in Telling what, in bit<28> name, out bool may) {
    apply {
        bit<62> told;
        dpfr_told.read(told, (bit<32>)destination);
        bit<32> since = state.round - told[31:0];
        may = what == Telling.DOWN || told[61:60] == (bit<2>)Telling.DOWN;
        if (told[61:60] == (bit<2>)what) {
            bool held = since < (bit<32>)1 << state.validity;
            bool enough = name[27:12] != told[59:44] && since <= state.refresh >> 1;
            may = since != 0 && (name == 0 || name != told[59:32]) && !enough && (may || held);
        }
        if (may) {
            dpfr_told.write((bit<32>)destination, (bit<2>)what ++ name ++ state.round);
        }
    }
}

// Writes a notification to the neighbours that go through here to a destination.
control TellNeighbours(inout local_metadata_t meta, in NotificationType type,
                       in destination_t destination, in ipv4_addr_t network, in port_t port) {
    apply {
        meta.notifying.type = (bit<4>)type;
        meta.notifying.severity = type == NotificationType.LINK_DOWN ? 4w15 : 4w0;
        meta.notifying.hops = meta.dpfr.hops;
        meta.notifying.validity = meta.dpfr.validity;
        meta.notifying.port = 3w0 ++ port;
        meta.notifying.destination = network;
        meta.notifying.destination_qp = 8w0 ++ destination;
        meta.notifying.queue = 0;
        meta.notifying.session = (bit<32>)meta.dpfr.listeners;
        dpfr.count((bit<32>)port << 4 | (bit<32>)(bit<8>)DpfrOutcome.NOTIFIED);
    }
}

// By destination, the last warning of lossy links from here: the switch that detected it 16, its number 12, round 32.
@id(REGISTER_ID_DPFR_WARNED)
register<bit<60>>(DPFR_DESTINATIONS) dpfr_warned;

// As MayTell, of links that lose packets. Nothing is taken back: a warning expires.
control MayWarn(in dpfr_t state, in destination_t destination, in bit<28> name, out bool may) {
    apply {
        bit<60> warned;
        dpfr_warned.read(warned, (bit<32>)destination);
        bit<32> since = state.round - warned[31:0];
        bool held = warned != 0 && since < (bit<32>)1 << state.validity;
        bool enough = name[27:12] != warned[59:44] && since <= state.refresh >> 1;
        may = !held || (since != 0 && (name == 0 || name != warned[59:32]) && !enough);
        if (may) {
            dpfr_warned.write((bit<32>)destination, name ++ state.round);
        }
    }
}

// Packets are lost on the way to a destination: behind the way by which the warning came, or on one of this switch's own.
// Where no other way is left, those that go through here are warned; they go around it if they can.
control HeedLossy(in headers_t hdr, inout local_metadata_t meta, in bool heard, in ways_t candidates,
                  in destination_t destination, in destination_t group, in ipv4_addr_t network, in port_t cause) {
    MayWarn() may_warn;
    TellNeighbours() tell_neighbours;

    apply {
        ways_t down;
        ways_t mask;
        ways_t of_group;
        ways_t degraded;
        ways_t lossy;
        ways_t lossy_of_group;
        bool believed = true;
        bit<28> name = 0;
        dpfr_down.read(down, 0);
        dpfr_masks.read(mask, (bit<32>)destination);
        dpfr_masks.read(of_group, (bit<32>)group);
        dpfr_degraded.read(degraded, 0);
        dpfr_lossy.read(lossy, (bit<32>)destination);
        dpfr_lossy.read(lossy_of_group, (bit<32>)group);
        if (heard) {
            bit<60> claim;
            bit<32> cell = (bit<32>)destination << 6 | (bit<32>)meta.dpfr.way;
            dpfr_lossy_claims.read(claim, cell);
            bit<32> left = claim[31:0] - meta.dpfr.round;
            bit<12> newer = hdr.notification.sequence - claim[43:32];
            bool same = claim[59:44] == hdr.notification.switch_id && left[31:31] == 0 && left != 0;
            believed = !same || (newer[11:11] == 0 && newer != 0);
            name = hdr.notification.switch_id ++ hdr.notification.sequence;
            if (believed) {
                lossy = lossy | (ways_t)1 << meta.dpfr.way;
                lossy_of_group = group == destination ? lossy : lossy_of_group;
                dpfr_lossy.write((bit<32>)destination, lossy);
                dpfr_lossy_claims.write(cell, name ++ (meta.dpfr.round + ((round_t)1 << hdr.notification.validity)));
                dpfr.count((bit<32>)cause << 4 | (bit<32>)(bit<8>)DpfrOutcome.WARNED);
            } else {
                dpfr.count((bit<32>)cause << 4 | (bit<32>)(bit<8>)DpfrOutcome.OLD);
            }
        }
        ways_t usable = candidates & ~down & ~mask & ~of_group;
        bool clean = usable & ~degraded & ~lossy & ~lossy_of_group != 0;
        if (meta.dpfr.listeners != 0 && believed && usable != 0 && !clean) {
            bool may;
            may_warn.apply(meta.dpfr, destination, name, may);
            if (may && heard) {
                meta.notifying.relay = meta.dpfr.listeners;
            } else if (may) {
                bit<4> far;
                dpfr_far.read(far, (bit<32>)meta.dpfr.way);
                tell_neighbours.apply(meta, NotificationType.DEGRADED, destination, network, cause);
                meta.notifying.severity = far;
            }
        }
    }
}

control DpfrNotices(inout headers_t hdr, inout local_metadata_t meta,
                    inout standard_metadata_t std) {
    HeartbeatTick() heartbeat_tick;
    TakeHeartbeat() take_heartbeat;
    MayTell() may_tell;
    TakePortState() take_port_state;
    HeedLossy() heed_lossy;
    TellNeighbours() tell_neighbours;
    destination_t destination = 0;
    destination_t group = 0;
    ipv4_addr_t network = 0;
    ways_t candidates = 0;
    port_t cause = 0;
    bit<8> behind_list = 0;

    @id(ACTION_ID_SET_DPFR_BEHIND)
    action set_dpfr_behind(@id(1) destination_t number) {
        destination = number;
    }

    @id(ACTION_ID_SKIP_DPFR_BEHIND)
    action skip_dpfr_behind() { }

    // What has to be looked at when a way is down, since it may be the last to it.
    @id(TABLE_ID_DPFR_BEHIND)
    table dpfr_behind {
        key = {
            behind_list: exact @name("list");
            destination: exact @name("index");
        }
        actions = { set_dpfr_behind; @defaultonly skip_dpfr_behind; }
        const default_action = skip_dpfr_behind();
        size = DPFR_DESTINATIONS * 2;
    }

    // `of`: the group of a leaf; a group's own number for a group.
    @id(ACTION_ID_SET_DPFR_CANDIDATES)
    action set_dpfr_candidates(@id(1) ways_t ways, @id(2) destination_t of, @id(3) ipv4_addr_t address,
                               @id(4) bit<16> listeners) {
        candidates = ways;
        group = of;
        network = address;
        meta.dpfr.listeners = listeners;
    }

    @id(ACTION_ID_SKIP_DPFR_CANDIDATES)
    action skip_dpfr_candidates() { }

    @id(TABLE_ID_DPFR_CANDIDATES)
    table dpfr_candidates {
        key = { destination: exact @name("destination"); }
        actions = { set_dpfr_candidates; @defaultonly skip_dpfr_candidates; }
        const default_action = skip_dpfr_candidates();
        size = DPFR_DESTINATIONS;
    }

    apply {
        Telling telling = Telling.NOTHING;
        bool look = false;
        bool heard = hdr.notification.type == NotificationType.LINK_DOWN ||
            hdr.notification.type == NotificationType.LINK_UP ||
            hdr.notification.type == NotificationType.DEGRADED;
        if (hdr.notification.type == NotificationType.PORT_STATE) {
            if (std.ingress_port == TICKER_PORT) {
                take_port_state.apply(hdr, meta);
            }
        } else if (meta.dpfr.on == 1 && hdr.notification.type == NotificationType.HEARTBEAT) {
            if (std.ingress_port == TICKER_PORT) {
                destination_t swept;
                heartbeat_tick.apply(hdr, meta, std, telling, behind_list, destination, swept);
                cause = std.egress_spec;
                if (telling != Telling.NOTHING) {
                    look = dpfr_behind.apply().hit;
                }
                // A claim that nobody refreshed ends.
                ways_t mask;
                bit<60> claim;
                ways_t own = (ways_t)1 << meta.dpfr.way;
                dpfr_masks.read(mask, (bit<32>)swept);
                dpfr_claims.read(claim, (bit<32>)swept << 6 | (bit<32>)meta.dpfr.way);
                bit<32> over = meta.dpfr.round - claim[31:0];
                if (claim != 0 && over[31:31] == 0) {
                    dpfr_claims.write((bit<32>)swept << 6 | (bit<32>)meta.dpfr.way, 0);
                    dpfr_masks.write((bit<32>)swept, mask & ~own);
                }
                dpfr_lossy.read(mask, (bit<32>)swept);
                dpfr_lossy_claims.read(claim, (bit<32>)swept << 6 | (bit<32>)meta.dpfr.way);
                over = meta.dpfr.round - claim[31:0];
                if (claim != 0 && over[31:31] == 0) {
                    dpfr_lossy_claims.write((bit<32>)swept << 6 | (bit<32>)meta.dpfr.way, 0);
                    dpfr_lossy.write((bit<32>)swept, mask & ~own);
                }
            } else if (meta.dpfr.known == 1) {
                take_heartbeat.apply(hdr, meta, std);
            }
        } else if (meta.dpfr.on == 1 && meta.dpfr.known == 1 && heard) {
            destination = hdr.notification.destination_qp[15:0];
            cause = std.ingress_port;
            look = hdr.notification.destination_qp < DPFR_DESTINATIONS;
        }

        if (look && dpfr_candidates.apply().hit) {
            if (telling == Telling.LOSSY || hdr.notification.type == NotificationType.DEGRADED) {
                heed_lossy.apply(hdr, meta, heard, candidates, destination, group, network, cause);
                return;
            }
            ways_t down;
            ways_t mask;
            ways_t of_group;
            ways_t own = (ways_t)1 << meta.dpfr.way;
            bool dead = hdr.notification.type == NotificationType.LINK_DOWN;
            bool believed = true;
            dpfr_down.read(down, 0);
            dpfr_masks.read(mask, (bit<32>)destination);
            dpfr_masks.read(of_group, (bit<32>)group);
            if (heard) {
                bit<60> claim;
                bit<32> cell = (bit<32>)destination << 6 | (bit<32>)meta.dpfr.way;
                dpfr_claims.read(claim, cell);
                bit<32> left = claim[31:0] - meta.dpfr.round;
                bit<12> newer = hdr.notification.sequence - claim[43:32];
                bool same = claim[59:44] == hdr.notification.switch_id && left[31:31] == 0 && left != 0;
                believed = !same || (newer[11:11] == 0 && newer != 0);
                if (believed) {
                    mask = dead ? mask | own : mask & ~own;
                    of_group = group == destination ? mask : of_group;
                    dpfr_masks.write((bit<32>)destination, mask);
                    claim = hdr.notification.switch_id ++ hdr.notification.sequence ++
                        (meta.dpfr.round + ((round_t)1 << hdr.notification.validity));
                    dpfr_claims.write(cell, claim);
                    DpfrOutcome outcome = dead ? DpfrOutcome.MASKED : DpfrOutcome.UNMASKED;
                    dpfr.count((bit<32>)cause << 4 | (bit<32>)(bit<8>)outcome);
                } else {
                    dpfr.count((bit<32>)cause << 4 | (bit<32>)(bit<8>)DpfrOutcome.OLD);
                }
            }
            bool lost = candidates & ~down & ~mask & ~of_group == 0;
            Telling news = telling;
            bit<28> name = 0;
            if (heard) {
                news = dead ? Telling.DOWN : Telling.UP;
                name = hdr.notification.switch_id ++ hdr.notification.sequence;
            }
            if (meta.dpfr.listeners != 0 && believed && lost == (news == Telling.DOWN)) {
                bool may;
                may_tell.apply(meta.dpfr, destination, news, name, may);
                if (may && heard) {
                    meta.notifying.relay = meta.dpfr.listeners;
                } else if (may && lost) {
                    tell_neighbours.apply(meta, NotificationType.LINK_DOWN, destination, network, cause);
                } else if (may) {
                    tell_neighbours.apply(meta, NotificationType.LINK_UP, destination, network, cause);
                }
            }
        }
    }
}

#endif
