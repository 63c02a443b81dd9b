// GLB: what lies behind each port, as the switch behind it reports it.
//
// Every switch knows for each leaf how good its best port towards it is, in bands (quality.p4): a path is as good as its
// worst link, so a port's band is the worse of its own and of what the switch behind it reported of that leaf. The best of
// all ports that lead there is what this switch reports itself, to all its neighbours, in a notification of type
// PATH_QUALITY. A leaf hears in that way of links two and three hops away, and of each only what it has to know.
//
//   a ticker's packet     -> ReportPaths   about one port, each in turn; after the last one a report leaves if there is news
//   a report              -> TakeReport    remembered by port
//   a packet as it leaves -> MeasureQueue  what waits behind it and how fast the line is: no estimate in ingress knows of
//                                          links that lost rate, nor of pauses
//   a packet to a leaf    -> PathBand      of two drawn ports, the one with the better band
//
// A band of all leaves at once is four sets of leaves, one for each of its bits, so that the worse and the better of two
// take some twenty steps, whatever the number of leaves.

#ifndef WEFT_DLB_PATHS_P4
#define WEFT_DLB_PATHS_P4

#include "quality.p4"

#define BAND_BIT_3(of) of[4 * GLB_LEAVES - 1:3 * GLB_LEAVES]
#define BAND_BIT_2(of) of[3 * GLB_LEAVES - 1:2 * GLB_LEAVES]
#define BAND_BIT_1(of) of[2 * GLB_LEAVES - 1:GLB_LEAVES]
#define BAND_BIT_0(of) of[GLB_LEAVES - 1:0]

const bit<4> LEAST_REPORTED = 2;        // a port's own band below counts as 0: such queues come and go faster than reports

// By port (to a switch): the bands of all leaves, as the switch behind the port reported them last.
@id(REGISTER_ID_GLB_HEARD)
register<bands_t>(DLB_PORTS) glb_heard;

@id(REGISTER_ID_GLB_WHEN)
register<bit<48>>(DLB_PORTS) glb_when;              // when it did, in ticks; 0: never

@id(REGISTER_ID_GLB_WORSE)
register<port_set_t>(1) glb_worse;                  // the ports of which anything but band 0 was reported

@id(REGISTER_ID_GLB_SILENT)
register<port_set_t>(1) glb_silent;                 // the ports by which reports came, and none for too long

@id(REGISTER_ID_GLB_BEST)
register<bands_t>(1) glb_best;                      // of the ports that have had their turn

@id(REGISTER_ID_GLB_SAID)
register<bands_t>(1) glb_said;                      // the last report from here

@id(REGISTER_ID_GLB_TURN)
register<bit<16>>(1) glb_turn;                      // rounds since then 8, the port whose turn it is 8

// By port, as its last packet left: what waited behind it 32 (in the target's unit of depths); what the last one took that
// another waited for, or that another followed sooner, in ticks 32, and its bytes 16; its own bytes 16; when it left 32, in
// ticks. Written in egress, each cell by one port's packets, and read in ingress.
@id(REGISTER_ID_GLB_LEFT)
register<bit<128>>(PORTS) glb_left;

@id(REGISTER_ID_GLB_WAITS)
register<bit<256>>(1) glb_waits;                    // by bit of that time's band, 3 first: the ports that have it

// Packets of classes with a policy alone: others may have queues of their own.
control MeasureQueue(in local_metadata_t meta, in standard_metadata_t std) {
    action measure_queue() {
        bit<128> last;
        glb_left.read(last, (bit<32>)std.egress_port);
        bit<32> now = std.egress_global_timestamp[31:0];
        bit<32> gap = now - last[31:0];             // what the one before took, if this one waited for it
        // A line is as fast as two packets showed that left one behind the other, and no slower than any two have left.
        bool faster = (bit<64>)gap * (bit<64>)last[63:48] < (bit<64>)last[95:64] * (bit<64>)last[47:32];
        bit<48> took = last[127:96] != 0 || faster ? gap ++ last[47:32] : last[95:48];
        glb_left.write((bit<32>)std.egress_port, (bit<32>)std.deq_qdepth ++ took ++ std.packet_length[15:0] ++ now);
    }

    apply {
        if (meta.glb.counts == 1) {
            measure_queue();
        }
    }
}

// A port's band from now on, by how long its packets waited.
control SetWaits(in port_set_t port, in bit<4> band) {
    apply {
        bit<256> waits;
        glb_waits.read(waits, 0);
        waits[255:192] = band[3:3] == 1 ? waits[255:192] | port : waits[255:192] & ~port;
        waits[191:128] = band[2:2] == 1 ? waits[191:128] | port : waits[191:128] & ~port;
        waits[127:64] = band[1:1] == 1 ? waits[127:64] | port : waits[127:64] & ~port;
        waits[63:0] = band[0:0] == 1 ? waits[63:0] | port : waits[63:0] & ~port;
        glb_waits.write(0, waits);
    }
}

// The worse of two bands, of each leaf. Branches, here and below, are where p4c ends an expression: it puts one into the
// next as long as it can, and they would double with each step.
control WorseBands(in leaves_t a_3, in leaves_t a_2, in leaves_t a_1, in leaves_t a_0, inout leaves_t b_3,
                   inout leaves_t b_2, inout leaves_t b_1, inout leaves_t b_0) {
    apply {
        leaves_t same = ~(a_3 ^ b_3);
        leaves_t worse = a_3 & ~b_3;
        worse = worse | (same & a_2 & ~b_2);
        same = same & ~(a_2 ^ b_2);
        worse = worse | (same & a_1 & ~b_1);
        same = same & ~(a_1 ^ b_1);
        worse = worse | (same & a_0 & ~b_0);
        if (worse != 0) {
            b_3 = (worse & a_3) | (~worse & b_3);
            b_2 = (worse & a_2) | (~worse & b_2);
            b_1 = (worse & a_1) | (~worse & b_1);
            b_0 = (worse & a_0) | (~worse & b_0);
        }
    }
}

// What a switch's report says, and how it is made.
struct reporting_t {
    bit<16>  group;         // multicast group of all ports to switches
    bit<48>  silence;       // ticks after which a port by which no report came any more leads nowhere
    bit<8>   refresh;       // rounds after which a report leaves without news
    leaves_t own;           // this switch, if it is a leaf
}

control ReportPaths(inout headers_t hdr, inout local_metadata_t meta, inout standard_metadata_t std) {
    WeighOne() weigh_port;
    BandOf() band_of;
    SetWaits() set_waits;
    WorseBands() add_own;
    WorseBands() keep_best;
    weighing_t all;
    reporting_t report;
    bit<8> place = 0;
    port_t port = 0;
    leaves_t elsewhere = 0;
    bit<32> per_byte = 0;
    bit<48> per_depth = 0;
    bit<16> overhead = 0;

    @id(ACTION_ID_REPORT_PATHS)
    action report_paths(@id(1) bit<8> ports, @id(2) bit<8> memory, @id(3) bit<8> share, @id(4) bit<8> unit,
                        @id(5) bit<16> group, @id(6) bit<48> silence, @id(7) bit<8> refresh, @id(8) leaves_t own,
                        @id(9) bit<16> on_line) {
        all.now = std.ingress_global_timestamp;
        all.ports = ports;
        all.memory = memory;
        all.share = share;
        all.unit = unit;
        report.group = group;
        report.silence = silence;
        report.refresh = refresh;
        report.own = own;
        overhead = on_line;
    }

    @id(ACTION_ID_SKIP_REPORTS)
    action skip_reports() { }

    @id(TABLE_ID_GLB_MODE)
    table glb_mode {
        actions = { report_paths; skip_reports; }
        default_action = skip_reports();
    }

    // `others`: the leaves that it does not lead to; `time_per_byte`, `time_per_depth`: on the line, in 1/65536 ticks.
    @id(ACTION_ID_SET_GLB_PORT)
    action set_glb_port(@id(1) port_t number, @id(2) leaves_t others, @id(3) bit<32> time_per_byte,
                        @id(4) bit<48> time_per_depth) {
        port = number;
        elsewhere = others;
        per_byte = time_per_byte;
        per_depth = time_per_depth;
    }

    @id(ACTION_ID_SKIP_GLB_PORT)
    action skip_glb_port() { }

    @id(TABLE_ID_GLB_PORT)
    table glb_port {
        key = { place: exact @name("place"); }
        actions = { set_glb_port; @defaultonly skip_glb_port; }
        const default_action = skip_glb_port();
        size = DLB_PORTS;
    }

    apply {
        all = { 0, 0, 0, 0, 0 };
        report = { 0, 0, 0, 0 };
        mark_to_drop(std);
        glb_mode.apply();
        bit<16> turn;
        glb_turn.read(turn, 0);
        place = turn[7:0];
        if (all.ports != 0 && glb_port.apply().hit) {
            // This port's own band: the worse of what ingress estimates and what its packets waited.
            port_set_t bit_0;
            port_set_t bit_1;
            port_set_t bit_2;
            port_set_t bit_3;
            dlb_bands.read(bit_0, 0);
            dlb_bands.read(bit_1, 1);
            dlb_bands.read(bit_2, 2);
            dlb_bands.read(bit_3, 3);
            weigh_port.apply(all, place, 0, bit_0, bit_1, bit_2, bit_3);
            dlb_bands.write(0, bit_0);
            dlb_bands.write(1, bit_1);
            dlb_bands.write(2, bit_2);
            dlb_bands.write(3, bit_3);
            bit<128> left;
            glb_left.read(left, (bit<32>)port);
            // What waits there, on a line of full rate; and that the line takes 2, 4, 8 or 16 times as long. To a slow line
            // comes what is on its way before anybody hears of a queue: it is worse than others before anything waits.
            bit<64> waits = (bit<64>)left[127:96] * (bit<64>)per_depth;
            bit<64> usual = (bit<64>)((bit<32>)left[63:48] + (bit<32>)overhead) * (bit<64>)per_byte;
            bit<64> took = 16w0 ++ left[95:64] ++ 16w0;
            bit<64> half_more = usual + (usual >> 1);
            if (took > half_more) {
                waits = (waits + (((bit<64>)1 << all.unit) << 16)) << 1;
            }
            if (took > half_more << 1) {
                waits = waits << 1;
            }
            if (took > half_more << 2) {
                waits = waits << 1;
            }
            if (took > half_more << 3) {
                waits = waits << 1;
            }
            // Nothing has left since: it is paused.
            bit<32> since = all.now[31:0] - left[31:0];
            waits = left[127:96] == 0 ? waits : waits + (16w0 ++ since ++ 16w0);
            bit<4> wait_band;
            band_of.apply(waits[63:16] >> all.unit, wait_band);
            port_set_t own = (port_set_t)1 << place;
            bit<4> band = (bit_3 & own != 0 ? 4w8 : 4w0) | (bit_2 & own != 0 ? 4w4 : 4w0) |
                (bit_1 & own != 0 ? 4w2 : 4w0) | (bit_0 & own != 0 ? 4w1 : 4w0);
            if (wait_band > band) {
                band = wait_band;
            }
            if (band < LEAST_REPORTED) {
                band = 0;
            }
            set_waits.apply(own, wait_band);

            // With what was reported of it: of each leaf the worse of both.
            bands_t heard;
            bit<48> when;
            glb_heard.read(heard, (bit<32>)place);
            glb_when.read(when, (bit<32>)place);
            if (when != 0 && all.now - when > report.silence) {
                heard = ~elsewhere ++ ~elsewhere ++ ~elsewhere ++ ~elsewhere;
                glb_heard.write((bit<32>)place, heard);
                port_set_t silent;
                glb_silent.read(silent, 0);
                glb_silent.write(0, silent | own);
            }
            port_set_t worse;
            glb_worse.read(worse, 0);
            worse = heard == 0 ? worse & ~own : worse | own;
            glb_worse.write(0, worse);
            leaves_t at_3 = BAND_BIT_3(heard);
            leaves_t at_2 = BAND_BIT_2(heard);
            leaves_t at_1 = BAND_BIT_1(heard);
            leaves_t at_0 = BAND_BIT_0(heard);
            add_own.apply(band[3:3] == 1 ? ~(leaves_t)0 : 0, band[2:2] == 1 ? ~(leaves_t)0 : 0,
                          band[1:1] == 1 ? ~(leaves_t)0 : 0, band[0:0] == 1 ? ~(leaves_t)0 : 0,
                          at_3, at_2, at_1, at_0);
            at_3 = at_3 | elsewhere;
            at_2 = at_2 | elsewhere;
            at_1 = at_1 | elsewhere;
            at_0 = at_0 | elsewhere;

            // Of all ports the best: the worse of the two, with all bits turned.
            bands_t best;
            glb_best.read(best, 0);
            best = place == 0 ? 0 : ~best;
            leaves_t best_3 = BAND_BIT_3(best);
            leaves_t best_2 = BAND_BIT_2(best);
            leaves_t best_1 = BAND_BIT_1(best);
            leaves_t best_0 = BAND_BIT_0(best);
            keep_best.apply(~at_3, ~at_2, ~at_1, ~at_0, best_3, best_2, best_1, best_0);
            best = ~(best_3 | report.own) ++ ~(best_2 | report.own) ++ ~(best_1 | report.own) ++ ~(best_0 | report.own);
            glb_best.write(0, best);

            bit<8> rounds = turn[15:8];
            place = place + 1;
            if (place >= all.ports) {
                place = 0;
                rounds = rounds |+| 1;
                bands_t said;
                glb_said.read(said, 0);
                if (best != said || rounds >= report.refresh) {
                    rounds = 0;
                    glb_said.write(0, best);
                    hdr.path_quality.bands = best;
                    hdr.notification.switch_id = meta.notifying.switch_id;
                    hdr.ethernet.src = meta.notifying.mac;
                    std.mcast_grp = report.group;
                }
            }
            glb_turn.write(0, rounds ++ place);
        }
    }
}

control TakeReport(in headers_t hdr, in standard_metadata_t std) {
    bit<8> place = 0;
    leaves_t elsewhere = 0;

    @id(ACTION_ID_SET_GLB_NEIGHBOUR)
    action set_glb_neighbour(@id(1) bit<8> number, @id(2) leaves_t others) {
        place = number;
        elsewhere = others;
    }

    @id(ACTION_ID_SKIP_GLB_NEIGHBOUR)
    action skip_glb_neighbour() { }

    @id(TABLE_ID_GLB_NEIGHBOUR)
    table glb_neighbour {
        key = { std.ingress_port: exact @name("port"); }
        actions = { set_glb_neighbour; @defaultonly skip_glb_neighbour; }
        const default_action = skip_glb_neighbour();
        size = DLB_PORTS;
    }

    apply {
        if (glb_neighbour.apply().hit) {
            bands_t heard = hdr.path_quality.bands & ~(elsewhere ++ elsewhere ++ elsewhere ++ elsewhere);
            glb_heard.write((bit<32>)place, heard);
            // Never later than now: the ticker's packet of the same tick takes the difference.
            bit<48> now = std.ingress_global_timestamp;
            glb_when.write((bit<32>)place, now == 0 ? 48w1 : now);
            port_set_t own = (port_set_t)1 << place;
            port_set_t silent;
            glb_silent.read(silent, 0);
            glb_silent.write(0, silent & ~own);
            port_set_t worse;
            glb_worse.read(worse, 0);
            worse = heard == 0 ? worse & ~own : worse | own;
            glb_worse.write(0, worse);
        }
    }
}

// How good a port is on the way to a leaf: the worst of what ingress estimates, what its packets waited, and what was
// reported of what is behind it.
control PathBand(in bit<8> place, in bit<8> leaf, out bit<4> band) {
    apply {
        bands_t of_leaf;
        bit<256> waiting;
        port_set_t of_port;
        glb_heard.read(of_leaf, (bit<32>)place);
        of_leaf = of_leaf >> leaf;
        bit<4> heard = of_leaf[3 * GLB_LEAVES:3 * GLB_LEAVES] ++ of_leaf[2 * GLB_LEAVES:2 * GLB_LEAVES] ++
            of_leaf[GLB_LEAVES:GLB_LEAVES] ++ of_leaf[0:0];
        glb_waits.read(waiting, 0);
        waiting = waiting >> place;
        bit<4> waits = waiting[192:192] ++ waiting[128:128] ++ waiting[64:64] ++ waiting[0:0];
        band = 0;
        dlb_bands.read(of_port, 3);
        of_port = of_port >> place;
        band[3:3] = of_port[0:0];
        dlb_bands.read(of_port, 2);
        of_port = of_port >> place;
        band[2:2] = of_port[0:0];
        dlb_bands.read(of_port, 1);
        of_port = of_port >> place;
        band[1:1] = of_port[0:0];
        dlb_bands.read(of_port, 0);
        of_port = of_port >> place;
        band[0:0] = of_port[0:0];
        band = waits > band ? waits : band;
        band = heard > band ? heard : band;
    }
}

#endif
