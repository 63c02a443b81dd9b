// A packet's way: the one that hash, plan or load have chosen, unless it is dead or can't reach the leaf.

#ifndef WEFT_DPFR_CHOOSE_P4
#define WEFT_DPFR_CHOOSE_P4

@id(REGISTER_ID_DPFR_COMPLAINTS)
register<bit<36>>(DPFR_DESTINATIONS) dpfr_complaints;   // that a packet had no way: how often notified 4, when last 32

// Whether neighbours are notified that a packet for a destination had no way: several times, a round apart, and again
// later; not if they were notified recently for another reason.
control Complain(in dpfr_t state, in destination_t destination, out bool may) {
    MayTell() may_tell;

    apply {
        bit<36> complaint;
        bit<62> told;
        dpfr_complaints.read(complaint, (bit<32>)destination);
        dpfr_told.read(told, (bit<32>)destination);
        bit<4> count = complaint[35:32];
        bool heard = told[61:60] == (bit<2>)Telling.DOWN && state.round - told[31:0] < state.refresh;
        bool anew = state.round - complaint[31:0] >= state.refresh || count == 0;
        may = anew ? !heard : (bit<16>)count < state.copies;
        if (may) {
            may_tell.apply(state, destination, Telling.DOWN, 0, may);
            if (may) {
                count = anew ? 4w1 : count + 1;
                dpfr_complaints.write((bit<32>)destination, count ++ state.round);
            }
        }
    }
}

control ChooseWay(in headers_t hdr, inout local_metadata_t meta, inout standard_metadata_t std) {
    Complain() complain;
    TellNeighbours() tell_neighbours;
    PickWay() pick_way;
    way_t chosen = 0;
    destination_t leaf = 0;
    destination_t group = 0;
    ways_t candidates = 0;
    ipv4_addr_t network = 0;
    port_t meant = 0;

    @id(ACTION_ID_SET_DPFR_CHOSEN)
    action set_dpfr_chosen(@id(1) way_t way, @id(2) port_t port) {
        chosen = way;
        meant = port;
    }

    @id(ACTION_ID_SKIP_DPFR_CHOSEN)
    action skip_dpfr_chosen() { }

    @id(TABLE_ID_DPFR_CHOSEN)
    table dpfr_chosen {
        key = { meta.next_hop: exact @name("next_hop"); }
        actions = { set_dpfr_chosen; @defaultonly skip_dpfr_chosen; }
        const default_action = skip_dpfr_chosen();
        size = NEXT_HOPS;
    }

    @id(ACTION_ID_SET_DPFR_DESTINATION)
    action set_dpfr_destination(@id(1) destination_t number, @id(2) destination_t of,
                                @id(3) ways_t ways, @id(4) ipv4_addr_t address,
                                @id(5) bit<16> listeners) {
        leaf = number;
        group = of;
        candidates = ways;
        network = address;
        meta.dpfr.listeners = listeners;
    }

    @id(ACTION_ID_SKIP_DPFR_DESTINATION)
    action skip_dpfr_destination() { }

    // Whose hosts they are, and by which ways.
    @id(TABLE_ID_DPFR_DESTINATION)
    table dpfr_destination {
        key = { hdr.ipv4.dst: lpm @name("dst"); }
        actions = { set_dpfr_destination; @defaultonly skip_dpfr_destination; }
        const default_action = skip_dpfr_destination();
        size = ROUTES;
    }

    @id(ACTION_ID_USE_DPFR_HOP)
    action use_dpfr_hop(@id(1) @refers_to(next_hop, next_hop) next_hop_id_t next_hop) {
        meta.next_hop = next_hop;
    }

    @id(ACTION_ID_SKIP_DPFR_HOP)
    action skip_dpfr_hop() {
        meta.next_hop = 0;
    }

    @id(TABLE_ID_DPFR_HOP)
    table dpfr_hop {
        key = { chosen: exact @name("way"); }
        actions = { use_dpfr_hop; @defaultonly skip_dpfr_hop; }
        const default_action = skip_dpfr_hop();
        size = DPFR_WAYS;
    }

    apply {
        if (meta.dpfr.on == 1 && dpfr_destination.apply().hit) {
            ways_t down;
            ways_t mask;
            ways_t of_group;
            dpfr_down.read(down, 0);
            dpfr_masks.read(mask, (bit<32>)leaf);
            dpfr_masks.read(of_group, (bit<32>)group);
            ways_t usable = candidates & ~down & ~mask & ~of_group;
            if (usable == 0) {
                meta.next_hop = 0;
                dpfr.count((bit<32>)std.ingress_port << 4 | (bit<32>)(bit<8>)DpfrOutcome.NO_WAY);
                destination_t about = candidates & ~down & ~of_group == 0 ? group : leaf;
                if (meta.dpfr.listeners != 0) {
                    bool may;
                    complain.apply(meta.dpfr, about, may);
                    if (may) {
                        tell_neighbours.apply(meta, NotificationType.LINK_DOWN, about, network, std.ingress_port);
                    }
                }
            } else {
                ways_t degraded;
                ways_t lossy;
                ways_t lossy_of_group;
                dpfr_degraded.read(degraded, 0);
                dpfr_lossy.read(lossy, (bit<32>)leaf);
                dpfr_lossy.read(lossy_of_group, (bit<32>)group);
                ways_t clean = usable & ~degraded & ~lossy & ~lossy_of_group;
                usable = clean == 0 ? usable : clean;
                ways_t own = 0;
                if (dpfr_chosen.apply().hit) {
                    own = (ways_t)1 << chosen;
                }
                if (usable & own == 0) {
                    bit<16> draw;
                    bit<32> odd = meta.router_mac[31:0] << 1 | 1;
                    bit<32> mix = (meta.flow.src_port ++ meta.flow.dst_port) * (odd * 0x85ebca6b);
                    hash(draw, HashAlgorithm.crc16, 16w0,
                         { mix, hdr.ipv4.src, hdr.ipv4.dst, meta.flow.protocol, odd }, 32w65536);
                    pick_way.apply(usable, draw, chosen);
                    dpfr_hop.apply();
                    dpfr.count((bit<32>)meant << 4 | (bit<32>)(bit<8>)DpfrOutcome.REROUTED);
                }
            }
        }
    }
}

#endif
