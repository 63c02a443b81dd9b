// What the switch remembers, shared by DPFR's controls.

#ifndef WEFT_DPFR_STATE_P4
#define WEFT_DPFR_STATE_P4

@id(REGISTER_ID_DPFR_CLOCK)
register<bit<64>>(1) dpfr_clock;                    // round 32, next destination to sweep 16, next way 16

@id(REGISTER_ID_DPFR_DOWN)
register<ways_t>(1) dpfr_down;                      // the ways that are down

@id(REGISTER_ID_DPFR_MASKS)
register<ways_t>(DPFR_DESTINATIONS) dpfr_masks;     // by destination: the ways that can't reach it

// By destination and way, what a neighbour said last of it: from which switch 16, its number 12 bits, until round 32.
@id(REGISTER_ID_DPFR_CLAIMS)
register<bit<60>>(DPFR_CLAIMS) dpfr_claims;

@id(REGISTER_ID_DPFR_DEGRADED)
register<ways_t>(1) dpfr_degraded;                  // ways whose other ends lose packets: used if there is no other

@id(REGISTER_ID_DPFR_LOSSY)
register<ways_t>(DPFR_DESTINATIONS) dpfr_lossy;     // by destination: ways behind which packets are lost on the way to it

// By destination and way, the last warning of a lossy link: as in dpfr_claims.
@id(REGISTER_ID_DPFR_LOSSY_CLAIMS)
register<bit<60>>(DPFR_CLAIMS) dpfr_lossy_claims;

@id(REGISTER_ID_DPFR_DARK)
register<bit<1>>(PORTS) dpfr_dark;                  // ports to hosts that have no carrier; see HeartbeatTick, too

// Counted by port.
enum bit<8> DpfrOutcome {
    REROUTED  = 0,      // packets that had been meant for the port, and took another
    NO_WAY    = 1,      // packets that came by the port, and no way was left
    WENT_DOWN = 2,
    CAME_UP   = 3,
    MASKED    = 4,      // fault notifications that came by the port and were believed
    UNMASKED  = 5,      // and such as took them back
    OLD       = 6,      // older than what is known, or known
    NOTIFIED  = 7,      // notifications made because of the port
    GAPS      = 8,      // heartbeats that came by the port behind packets that did not
    LOSSY     = 9,      // times that too many packets were lost on the way to the port
    DEGRADED  = 10,     // times that too many were lost which left by the port, so that it is avoided
    RECOVERED = 11,     // and was used again
    LOST_CARRIER = 12,  // times that the target reported it gone
    UNPLUGGED = 13,     // packets for a host behind the port, while it has none
    GOT_CARRIER = 14,   // times that the target reported it back
    WARNED    = 15      // notifications of lossy links that came by the port and were believed
}

@id(COUNTER_ID_DPFR)
counter(PORTS * 16, CounterType.packets) dpfr;       // by port and DpfrOutcome

@id(REGISTER_ID_DPFR_RECEIVED)
register<bit<32>>(DPFR_WAYS) dpfr_received;         // packets that came by a way, whatever became of them

control BeginDpfr(inout local_metadata_t meta, in standard_metadata_t std) {
    // Times in periods of heartbeats; docs/dpfr.md says what follows from them.
    @id(ACTION_ID_ENABLE_DPFR)
    action enable_dpfr(@id(1) way_t ways, @id(2) bit<16> misses, @id(3) bit<16> hold,
                       @id(4) bit<16> copies, @id(5) bit<16> refresh, @id(6) bit<4> validity,
                       @id(7) bit<4> hops, @id(8) destination_t destinations, @id(9) bit<16> weight,
                       @id(10) bit<32> most, @id(11) bit<32> limit) {
        meta.dpfr.on = 1;
        meta.dpfr.ways = ways;
        meta.dpfr.misses = (round_t)misses;
        meta.dpfr.hold = (round_t)hold;
        meta.dpfr.copies = copies;
        meta.dpfr.refresh = (round_t)refresh;
        meta.dpfr.validity = validity;
        meta.dpfr.hops = hops;
        meta.dpfr.destinations = destinations;
        meta.dpfr.weight = weight;
        meta.dpfr.most = most;
        meta.dpfr.limit = limit;
    }

    @id(ACTION_ID_DISABLE_DPFR)
    action disable_dpfr() {
        meta.dpfr.on = 0;
    }

    @id(TABLE_ID_DPFR_MODE)
    table dpfr_mode {
        actions = { enable_dpfr; disable_dpfr; }
        default_action = disable_dpfr();
    }

    @id(ACTION_ID_SET_DPFR_WAY)
    action set_dpfr_way(@id(1) way_t way) {
        meta.dpfr.known = 1;
        meta.dpfr.way = way;
    }

    @id(ACTION_ID_SKIP_DPFR_WAY)
    action skip_dpfr_way() {
        meta.dpfr.known = 0;
    }

    @id(TABLE_ID_DPFR_WAY)
    table dpfr_way {
        key = { std.ingress_port: exact @name("port"); }
        actions = { set_dpfr_way; @defaultonly skip_dpfr_way; }
        const default_action = skip_dpfr_way();
        size = DPFR_WAYS;
    }

    action count_received() {
        bit<32> packets;
        dpfr_received.read(packets, (bit<32>)meta.dpfr.way);
        dpfr_received.write((bit<32>)meta.dpfr.way, packets + 1);
    }

    apply {
        dpfr_mode.apply();
        if (meta.dpfr.on == 1) {
            bit<64> clock;
            dpfr_clock.read(clock, 0);
            meta.dpfr.round = clock[63:32];
            if (std.instance_type != RECIRCULATED) {
                dpfr_way.apply();
                if (meta.dpfr.known == 1) {
                    count_received();
                }
            }
        }
    }
}

#endif
