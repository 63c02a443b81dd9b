// The port that a packet takes of its group's, by the policy of its class.

#ifndef WEFT_DLB_BALANCE_P4
#define WEFT_DLB_BALANCE_P4

@id(REGISTER_ID_DLB_TURNS)
register<bit<16>>(ECMP_GROUPS + 1) dlb_turns;       // by group: whose turn it is

// By flow's hash: in use 1, its port 8, when its last packet came 48.
@id(REGISTER_ID_DLB_FLOWLETS)
register<bit<57>>(DLB_FLOWLETS) dlb_flowlets;

// Counted by port.
enum bit<8> BalanceOutcome {
    CHOSEN = 0,         // flowlets, or packets where each is one, that the port was chosen for
    KEPT   = 1,         // packets that followed the one before
    MOVED  = 2,         // flowlets that had another port before
    STEERED = 3         // such as were chosen for reports, against what is known of the ports alone
}

@id(COUNTER_ID_DLB)
counter(PORTS * 4, CounterType.packets) dlb;        // by port and BalanceOutcome

control BalanceLoad(in headers_t hdr, inout local_metadata_t meta, in standard_metadata_t std) {
    PickWay() pick_way;
    PickWay() pick_other;
    Balance policy = Balance.SPRAY;
    bit<32> gap = 0;
    port_set_t ports = 0;
    bit<16> count = 0;
    bit<16> step = 0;
    bit<8>  chosen = 0;
    port_t  number = 0;
    bit<16> draw = 0;
    bit<32> cell = 0;
#ifdef WITH_DLB_WEIGHTS
    bit<1>  weighted = 0;
#endif
#ifdef WITH_GLB
    PathBand() band_of_first;
    PathBand() band_of_other;
    bit<8>  leaf = 0;

    @id(ACTION_ID_SET_GLB_LEAF)
    action set_glb_leaf(@id(1) bit<8> index) {
        leaf = index;
    }

    @id(ACTION_ID_SKIP_GLB_LEAF)
    action skip_glb_leaf() { }

    // Whose hosts they are.
    @id(TABLE_ID_GLB_LEAF)
    table glb_leaf {
        key = { hdr.ipv4.dst: lpm @name("dst"); }
        actions = { set_glb_leaf; @defaultonly skip_glb_leaf; }
        const default_action = skip_glb_leaf();
        size = ROUTES;
    }
#endif

    // `idle`: ticks after which a flow's next packet may take another port.
    @id(ACTION_ID_SET_BALANCE)
    action set_balance(@id(1) bit<8> how, @id(2) bit<32> idle) {
        policy = (Balance)how;
        gap = idle;
    }

#ifdef WITH_DLB_WEIGHTS
    // Faster ports more often.
    @id(ACTION_ID_SET_WEIGHTED_BALANCE)
    action set_weighted_balance(@id(1) bit<8> how, @id(2) bit<32> idle) {
        policy = (Balance)how;
        gap = idle;
        weighted = 1;
    }
#endif

    @id(ACTION_ID_SKIP_BALANCE)
    action skip_balance() { }

    @id(TABLE_ID_DLB_CLASS)
    table dlb_class {
        key = { hdr.ipv4.dscp: exact @name("dscp"); }
        actions = {
            set_balance;
#ifdef WITH_DLB_WEIGHTS
            set_weighted_balance;
#endif
            @defaultonly skip_balance;
        }
        const default_action = skip_balance();
        size = 64;
    }

    // `steps`: 65536 / how many, rounded up.
    @id(ACTION_ID_SET_DLB_GROUP)
    action set_dlb_group(@id(1) port_set_t members, @id(2) bit<16> how_many, @id(3) bit<16> steps) {
        ports = members;
        count = how_many;
        step = steps;
    }

    @id(ACTION_ID_SKIP_DLB_GROUP)
    action skip_dlb_group() { }

    @id(TABLE_ID_DLB_GROUP)
    table dlb_group {
        key = { meta.group: exact @name("group"); }
        actions = { set_dlb_group; @defaultonly skip_dlb_group; }
        const default_action = skip_dlb_group();
        size = ECMP_GROUPS;
    }

    @id(ACTION_ID_USE_DLB_HOP)
    action use_dlb_hop(@id(1) @refers_to(next_hop, next_hop) next_hop_id_t next_hop, @id(2) port_t port) {
        meta.next_hop = next_hop;
        number = port;
    }

    @id(ACTION_ID_SKIP_DLB_HOP)
    action skip_dlb_hop() { }

    @id(TABLE_ID_DLB_HOP)
    table dlb_hop {
        key = { chosen: exact @name("port"); }
        actions = { use_dlb_hop; @defaultonly skip_dlb_hop; }
        const default_action = skip_dlb_hop();
        size = DLB_PORTS;
    }

#ifdef WITH_DLB_WEIGHTS
    @id(ACTION_ID_TAKE_SHARE)
    action take_share(@id(1) bit<8> place) {
        chosen = place;
    }

    @id(ACTION_ID_SKIP_SHARE)
    action skip_share() { }

    // A port by its share of all draws; groups of equal ports have none.
    @id(TABLE_ID_DLB_SHARE)
    table dlb_share {
        key = {
            meta.group: exact @name("group");
            draw: range @name("draw");
        }
        actions = { take_share; @defaultonly skip_share; }
        const default_action = skip_share();
        size = ECMP_GROUPS * DLB_PORTS;
    }
#endif

    // Each switch with a number of its own: see Routing. A queue pair is told apart by the one that it sends to.
    action hash_flow() {
        bit<32> odd = meta.router_mac[31:0] << 1 | 1;
        bit<32> pair = hdr.bth.isValid() ? 8w0 ++ hdr.bth.destination_qp : 32w0;
        bit<32> mix = ((meta.flow.src_port ++ meta.flow.dst_port) ^ pair * GOLDEN_RATIO) * (odd * 0x85ebca6b);
        hash(draw, HashAlgorithm.crc16, 16w0,
             { mix, hdr.ipv4.src, hdr.ipv4.dst, meta.flow.protocol, odd }, 32w65536);
        hash(cell, HashAlgorithm.crc32, 32w0,
             { mix, hdr.ipv4.src, hdr.ipv4.dst, meta.flow.protocol }, (bit<32>)DLB_FLOWLETS);
    }

    action draw_port() {
        random(draw, 0, 0xffff);
    }

    apply {
#ifdef WITH_GLB
        // Also of packets that have no choice here: how long they wait is reported.
        bool balanced = dlb_class.apply().hit;
        meta.glb.counts = balanced ? 1w1 : 1w0;
        balanced = balanced && meta.group != 0;
        bool by_path = policy == Balance.PACKET_GLB || policy == Balance.FLOWLET_GLB;
#else
        bool balanced = meta.group != 0 && dlb_class.apply().hit;
        bool by_path = false;
#endif
        if (balanced && dlb_group.apply().hit) {
            bool by_flowlet = policy == Balance.FLOWLET || policy == Balance.FLOWLET_DLB ||
                policy == Balance.FLOWLET_GLB;
            bool by_quality = by_path || policy == Balance.PACKET_DLB || policy == Balance.FLOWLET_DLB;
            bool steered = false;
            BalanceOutcome outcome = BalanceOutcome.CHOSEN;
            if (policy == Balance.ECMP_QP || by_flowlet) {
                hash_flow();
            }
            port_set_t worse = 0;
#ifdef WITH_GLB
            if (by_path && glb_leaf.apply().hit) {
                port_set_t silent;
                glb_silent.read(silent, 0);
                ports = ports & ~silent == 0 ? ports : ports & ~silent;
                glb_worse.read(worse, 0);
                worse = worse & ports;
            }
#endif
            bit<57> flowlet = 0;
            if (by_flowlet) {
                dlb_flowlets.read(flowlet, cell);
                bit<48> idle = std.ingress_global_timestamp - flowlet[47:0];
                bool there = flowlet[56:56] == 1 && ports & ((port_set_t)1 << flowlet[55:48]) != 0;
                if (there && idle < (bit<48>)gap) {
                    outcome = BalanceOutcome.KEPT;
                    chosen = flowlet[55:48];
                }
            }
            if (policy == Balance.ROUND_ROBIN) {
                bit<16> turn;
                dlb_turns.read(turn, (bit<32>)meta.group);
                turn = turn + 1 >= count ? 16w0 : turn + 1;
                dlb_turns.write((bit<32>)meta.group, turn);
                draw = turn * step;
            } else if (policy != Balance.ECMP_QP) {
                draw_port();
            }
            if (outcome == BalanceOutcome.CHOSEN) {
                if (by_quality && worse == 0) {
                    // The ports of the lowest band: bit by bit, those without the bit if there are any.
                    port_set_t with_bit;
                    dlb_bands.read(with_bit, 3);
                    ports = ports & ~with_bit == 0 ? ports : ports & ~with_bit;
                    dlb_bands.read(with_bit, 2);
                    ports = ports & ~with_bit == 0 ? ports : ports & ~with_bit;
                    dlb_bands.read(with_bit, 1);
                    ports = ports & ~with_bit == 0 ? ports : ports & ~with_bit;
                    dlb_bands.read(with_bit, 0);
                    ports = ports & ~with_bit == 0 ? ports : ports & ~with_bit;
                }
                pick_way.apply(ports, draw, chosen);
#ifdef WITH_DLB_WEIGHTS
                if (weighted == 1) {
                    dlb_share.apply();
                }
#endif
                if (by_quality) {
                    // Of two that are drawn the one that is free sooner: chance keeps flows from falling into step.
                    bit<8> other;
                    bit<128> busy;
                    bit<128> busy_other;
                    draw_port();
                    pick_other.apply(ports, draw, other);
                    dlb_busy.read(busy, (bit<32>)chosen);
                    dlb_busy.read(busy_other, (bit<32>)other);
                    bool sooner = busy_other[127:64] < busy[127:64];
#ifdef WITH_GLB
                    if (worse != 0) {
                        // Two are compared, however many there are: if all switches took the best, all would take the same.
                        bit<4> band;
                        bit<4> band_other;
                        band_of_first.apply(chosen, leaf, band);
                        band_of_other.apply(other, leaf, band_other);
                        bool better = band_other < band || (band_other == band && sooner);
                        steered = better != sooner;
                        sooner = better;
                    }
#endif
                    chosen = sooner ? other : chosen;
                }
                if (by_flowlet && flowlet[56:56] == 1 && flowlet[55:48] != chosen) {
                    outcome = BalanceOutcome.MOVED;
                }
            }
            if (by_flowlet) {
                dlb_flowlets.write(cell, 1w1 ++ chosen ++ std.ingress_global_timestamp);
            }
            if (dlb_hop.apply().hit) {
                dlb.count((bit<32>)number << 2 | (bit<32>)(bit<8>)outcome);
                if (outcome == BalanceOutcome.MOVED) {
                    dlb.count((bit<32>)number << 2 | (bit<32>)(bit<8>)BalanceOutcome.CHOSEN);
                }
                if (steered) {
                    dlb.count((bit<32>)number << 2 | (bit<32>)(bit<8>)BalanceOutcome.STEERED);
                }
            }
        }
    }
}

#endif
