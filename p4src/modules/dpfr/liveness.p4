// Which ways are alive: heartbeats both ways, and any packet.

#ifndef WEFT_DPFR_LIVENESS_P4
#define WEFT_DPFR_LIVENESS_P4

@id(REGISTER_ID_DPFR_HEARD)
register<round_t>(DPFR_WAYS) dpfr_heard;            // when anything last came by a way

@id(REGISTER_ID_DPFR_FAR)
register<bit<4>>(DPFR_WAYS) dpfr_far;               // what its other end last said of hearing us: a severity

@id(REGISTER_ID_DPFR_BACK)
register<round_t>(DPFR_WAYS) dpfr_back;             // when a way that is down may be believed again

@id(REGISTER_ID_DPFR_FLAPS)
register<bit<40>>(DPFR_WAYS) dpfr_flaps;            // how often it went down of late 8, when it last did 32

// What has to be notified of a way: nothing, that it is down or that it is up again; how much of that was sent.
@id(REGISTER_ID_DPFR_TELLING)
register<bit<64>>(DPFR_WAYS) dpfr_telling;          // Telling 2, next destination behind it 15, sent 15, next round 32

enum bit<2> Telling {
    NOTHING = 0,
    DOWN    = 1,
    UP      = 2,
    LOSSY   = 3
}

const bit<8> FLAPS_MOST = 10;       // doublings of the hold, and of the time after which a death is forgotten

// Any packet that is whole says that its way is alive.
control HearWay(in headers_t hdr, in local_metadata_t meta, in standard_metadata_t std) {
    apply {
        if (meta.dpfr.on == 1 && meta.dpfr.known == 1 &&
            (meta.drop_reason == DropReason.UNDECIDED || meta.drop_reason == DropReason.FORWARDED)) {
            dpfr_heard.write((bit<32>)meta.dpfr.way, meta.dpfr.round);
        }
    }
}

// A way has just been detected dead: nothing leaves by it from now on, and notifications follow.
control FindDead(in dpfr_t state, in port_t port, in ways_t down) {
    ForgetCounts() forget_counts;

    apply {
        forget_counts.apply(state.way);
        bit<40> flaps;
        dpfr_flaps.read(flaps, (bit<32>)state.way);
        bool soon = flaps[31:0] != 0 && state.round - flaps[31:0] < state.hold << FLAPS_MOST;
        bit<8> often = flaps[39:32] == FLAPS_MOST ? FLAPS_MOST : flaps[39:32] + 1;
        often = soon ? often : 8w0;
        dpfr_flaps.write((bit<32>)state.way, often ++ state.round);
        dpfr_back.write((bit<32>)state.way, state.round + (state.hold << often));
        dpfr_telling.write((bit<32>)state.way, (bit<2>)Telling.DOWN ++ 62w0);
        dpfr_down.write(0, down | (ways_t)1 << state.way);
        dpfr.count((bit<32>)port << 4 | (bit<32>)(bit<8>)DpfrOutcome.WENT_DOWN);
    }
}

// A heartbeat reports whether anything from this switch arrives, and how much was sent. If nothing does, the way is
// dead at once.
control TakeHeartbeat(in headers_t hdr, in local_metadata_t meta, in standard_metadata_t std) {
    FindDead() find_dead;
    WeighLosses() weigh_losses;

    apply {
        weigh_losses.apply(hdr, meta, std);
        dpfr_far.write((bit<32>)meta.dpfr.way, hdr.notification.severity);
        if (hdr.notification.severity == DEAF) {
            ways_t down;
            dpfr_down.read(down, 0);
            if (down & ((ways_t)1 << meta.dpfr.way) == 0) {
                find_dead.apply(meta.dpfr, std.ingress_port, down);
            }
        }
    }
}

// A ticker's packet is about one way, each in turn: its state is determined, and a heartbeat leaves by it, which is
// this packet. `behind` is the index in dpfr_behind of the destination to notify of, if `telling` says so.
control HeartbeatTick(inout headers_t hdr, inout local_metadata_t meta,
                      inout standard_metadata_t std, out Telling telling,
                      out bit<8> behind_list, out bit<16> behind, out destination_t sweep) {
    FindDead() find_dead;
    AvoidLossy() avoid_lossy;
    WarnOfLossy() warn_of_lossy;
    port_t port = 0;
    bit<16> destinations_behind = 0;

    @id(ACTION_ID_SET_DPFR_PORT)
    action set_dpfr_port(@id(1) port_t number, @id(2) bit<8> behind_it, @id(3) bit<16> destinations) {
        port = number;
        behind_list = behind_it;
        destinations_behind = destinations;
    }

    @id(ACTION_ID_SKIP_DPFR_PORT)
    action skip_dpfr_port() {
        mark_to_drop(std);
    }

    @id(TABLE_ID_DPFR_PORT)
    table dpfr_port {
        key = { meta.dpfr.way: exact @name("way"); }
        actions = { set_dpfr_port; @defaultonly skip_dpfr_port; }
        const default_action = skip_dpfr_port();
        size = DPFR_WAYS;
    }

    // The way whose turn it is; after the last one a new round begins.
    action take_turn() {
        bit<64> clock;
        dpfr_clock.read(clock, 0);
        meta.dpfr.way = clock[7:0];
        sweep = clock[31:16];
        bool last = meta.dpfr.way + 1 >= meta.dpfr.ways;
        bit<16> next = last ? 16w0 : 8w0 ++ (meta.dpfr.way + 1);
        bit<16> swept = sweep + 1 >= meta.dpfr.destinations ? 16w0 : sweep + 1;
        swept = last ? swept : sweep;
        bit<32> round = last ? clock[63:32] + 1 : clock[63:32];
        dpfr_clock.write(0, round ++ swept ++ next);
    }

    apply {
        ways_t down;
        bit<64> told;
        telling = Telling.NOTHING;
        behind_list = 0;
        behind = 0;
        take_turn();
        if (dpfr_port.apply().hit) {
            round_t heard;
            bit<4> far;
            ways_t own = (ways_t)1 << meta.dpfr.way;
            dpfr_heard.read(heard, (bit<32>)meta.dpfr.way);
            dpfr_far.read(far, (bit<32>)meta.dpfr.way);
            dpfr_down.read(down, 0);
            // It lost its carrier before the controller had said that it leads to a switch.
            bit<1> dark;
            dpfr_dark.read(dark, (bit<32>)port);
            if (dark == 1) {
                dpfr_dark.write((bit<32>)port, 0);
                heard = meta.dpfr.round - meta.dpfr.misses - 1;
                dpfr_heard.write((bit<32>)meta.dpfr.way, heard);
            }
            bool hears = meta.dpfr.round - heard <= meta.dpfr.misses;
            bool is_down = down & own != 0;
            if (!hears || far == DEAF) {
                if (!is_down) {
                    find_dead.apply(meta.dpfr, port, down);
                } else {
                    bit<40> flaps;
                    dpfr_flaps.read(flaps, (bit<32>)meta.dpfr.way);
                    dpfr_back.write((bit<32>)meta.dpfr.way,
                                    meta.dpfr.round + (meta.dpfr.hold << flaps[39:32]));
                }
            } else if (is_down) {
                round_t back;
                dpfr_back.read(back, (bit<32>)meta.dpfr.way);
                bit<32> good = meta.dpfr.round - back;
                if (good[31:31] == 0) {
                    dpfr_down.write(0, down & ~own);
                    dpfr_telling.write((bit<32>)meta.dpfr.way, (bit<2>)Telling.UP ++ 62w0);
                    dpfr.count((bit<32>)port << 4 | (bit<32>)(bit<8>)DpfrOutcome.CAME_UP);
                }
            }

            avoid_lossy.apply(meta.dpfr, port, far);

            dpfr_telling.read(told, (bit<32>)meta.dpfr.way);
            // Of each destination behind it `copies` notifications leave, one destination a period, and more later.
            bit<32> total = (bit<32>)meta.dpfr.copies * (bit<32>)destinations_behind;
            bit<32> so_far = (bit<32>)told[46:32];
            bit<32> wait = meta.dpfr.round - told[31:0];
            bool again = told[63:62] == (bit<2>)Telling.DOWN && wait[31:31] == 0;
            if (destinations_behind != 0 && told[63:62] != 0 && (so_far < total || again)) {
                telling = (Telling)told[63:62];
                behind = 1w0 ++ told[61:47];
                bool through = behind + 1 >= destinations_behind;
                bit<16> next = through ? 16w0 : behind + 1;
                bit<15> count = so_far < total ? told[46:32] + 1 : told[46:32];
                round_t later = told[31:0];
                if (through && so_far + 1 >= total) {
                    later = meta.dpfr.round + meta.dpfr.refresh;
                    if (told[63:62] == (bit<2>)Telling.UP) {
                        told = 0;
                    }
                }
                told = told[63:62] ++ next[14:0] ++ count ++ later;
            }
            dpfr_telling.write((bit<32>)meta.dpfr.way, told);
            if (telling == Telling.NOTHING) {
                bool turn;
                warn_of_lossy.apply(meta.dpfr, destinations_behind, turn, behind);
                telling = turn ? Telling.LOSSY : Telling.NOTHING;
            }

            bit<64> losses;
            dpfr_losses.read(losses, (bit<32>)meta.dpfr.way);
            hdr.notification.severity = hears ? losses[62:59] : DEAF;
            hdr.notification.switch_id = meta.notifying.switch_id;
            hdr.notification.port = 3w0 ++ port;
            hdr.notification.sequence = meta.dpfr.round[11:0];
            hdr.ethernet.src = meta.notifying.mac;
            std.egress_spec = port;
        }
    }
}

#endif
