// How good a port is: from what ingress has sent to it, since nothing in ingress can see queues.
//
// All packets of a switch pass its one ingress. Each that leaves by a port to another switch is counted here, so that
// two things are known of the port:
//
//   until when it is busy   every packet adds the time that it takes on the line; what of that is ahead is its queue
//   how busy it was         bytes sent, as time on the line, forgotten over 2^memory ticks
//
// The sum of the first and a share of the second falls into one of 16 bands: 0 below `unit`, and then one more for each
// doubling. Bands are kept as four sets of ports, one for each bit of the band: the best of some ports are found by four
// steps, whatever their number. A band is computed anew when a packet is sent to its port, and with each packet for two
// more ports in turn, so that it falls when nothing is sent there.
//
// Priorities, pauses (PFC) and what egress drops are not known here: a port that is paused looks better than it is.

#ifndef WEFT_DLB_QUALITY_P4
#define WEFT_DLB_QUALITY_P4

#define DLB_BAND_BITS 4

// By port: busy until 64 and sent lately 32, in 1/65536 ticks; when that was computed, in ticks 32.
@id(REGISTER_ID_DLB_BUSY)
register<bit<128>>(DLB_PORTS) dlb_busy;

@id(REGISTER_ID_DLB_BANDS)
register<port_set_t>(DLB_BAND_BITS) dlb_bands;      // by bit of the band: the ports that have it

@id(REGISTER_ID_DLB_NEXT)
register<bit<8>>(1) dlb_next;                       // the port whose band is computed anew next

// floor(log2(units)) + 1, at most 15; 0 for 0.
control BandOf(in bit<48> units, out bit<4> band) {
    apply {
        bit<48> left = units;
        band = left == 0 ? 4w0 : 4w1;
        if (left >= 256) {
            band = band + 8;
            left = left >> 8;
        }
        if (left >= 16) {
            band = band + 4;
            left = left >> 4;
        }
        if (left >= 4) {
            band = band + 2;
            left = left >> 2;
        }
        if (left >= 2) {
            band = band + 1;
        }
        band = units >= 16384 ? 4w15 : band;
    }
}

struct weighing_t {
    bit<48> now;
    bit<8>  ports;          // how many
    bit<8>  memory;         // what was sent is forgotten over 2^memory ticks: at most 15
    bit<8>  share;          // of it: 2^-share
    bit<8>  unit;           // of bands: 2^unit ticks
}

// One port's band now, after `sent` (in 1/65536 ticks) more was sent to it.
control WeighOne(in weighing_t all, in bit<8> port, in bit<48> sent, inout port_set_t bit_0, inout port_set_t bit_1,
                 inout port_set_t bit_2, inout port_set_t bit_3) {
    BandOf() band_of;

    apply {
        bit<128> busy;
        dlb_busy.read(busy, (bit<32>)port);
        bit<64> now = all.now ++ 16w0;
        bit<64> until = busy[127:64] > now ? busy[127:64] : now;
        until = until + (bit<64>)sent;
        bit<64> lately = 32w0 ++ busy[63:32];
        bit<32> passed = all.now[31:0] - busy[31:0];
        lately = passed >> all.memory != 0 ? 64w0 : lately - (lately * (bit<64>)passed >> all.memory);
        lately = lately + (bit<64>)sent;
        lately = lately > 0xffffffff ? 64w0xffffffff : lately;
        bit<4> band = 0;
        bit<64> ahead = until - now;
        bit<64> score = ahead + (lately >> all.share);
        band_of.apply(score[63:16] >> all.unit, band);
        dlb_busy.write((bit<32>)port, until ++ lately[31:0] ++ all.now[31:0]);
        port_set_t own = (port_set_t)1 << port;
        bit_0 = band[0:0] == 1 ? bit_0 | own : bit_0 & ~own;
        bit_1 = band[1:1] == 1 ? bit_1 | own : bit_1 & ~own;
        bit_2 = band[2:2] == 1 ? bit_2 | own : bit_2 & ~own;
        bit_3 = band[3:3] == 1 ? bit_3 | own : bit_3 & ~own;
    }
}

control WeighPort(inout local_metadata_t meta, in standard_metadata_t std) {
    WeighOne() weigh_sent;
    WeighOne() weigh_first;
    WeighOne() weigh_second;
    bit<8>  port = 0;
    bit<32> per_byte = 0;
    bit<16> overhead = 0;
    weighing_t all;

    @id(ACTION_ID_WEIGH_PORTS)
    action weigh_ports(@id(1) bit<8> ports, @id(2) bit<8> memory, @id(3) bit<8> share, @id(4) bit<8> unit,
                       @id(5) bit<16> on_line) {
        all.now = std.ingress_global_timestamp;
        all.ports = ports;
        all.memory = memory;
        all.share = share;
        all.unit = unit;
        overhead = on_line;
    }

    @id(ACTION_ID_SKIP_DLB_MODE)
    action skip_dlb_mode() { }

    // Nothing is weighed where no class asks for it.
    @id(TABLE_ID_DLB_MODE)
    table dlb_mode {
        actions = { weigh_ports; skip_dlb_mode; }
        default_action = skip_dlb_mode();
    }

    // `per_byte`: a byte's time on the line, in 1/65536 ticks.
    @id(ACTION_ID_SET_DLB_PORT)
    action set_dlb_port(@id(1) bit<8> number, @id(2) bit<32> time_per_byte) {
        port = number;
        per_byte = time_per_byte;
    }

    @id(ACTION_ID_SKIP_DLB_PORT)
    action skip_dlb_port() { }

    @id(TABLE_ID_DLB_PORT)
    table dlb_port {
        key = { std.egress_spec: exact @name("port"); }
        actions = { set_dlb_port; @defaultonly skip_dlb_port; }
        const default_action = skip_dlb_port();
        size = DLB_PORTS;
    }

    apply {
        all = { 0, 0, 0, 0, 0 };
        dlb_mode.apply();
        if (all.ports != 0 && meta.drop_reason == DropReason.FORWARDED && dlb_port.apply().hit) {
            port_set_t bit_0;
            port_set_t bit_1;
            port_set_t bit_2;
            port_set_t bit_3;
            bit<8> next;
            dlb_bands.read(bit_0, 0);
            dlb_bands.read(bit_1, 1);
            dlb_bands.read(bit_2, 2);
            dlb_bands.read(bit_3, 3);
            dlb_next.read(next, 0);
            bit<32> bytes = std.packet_length + (bit<32>)overhead;
            bit<64> took = (bit<64>)bytes * (bit<64>)per_byte;
            weigh_sent.apply(all, port, took[47:0], bit_0, bit_1, bit_2, bit_3);
            next = next + 1 >= all.ports ? 8w0 : next + 1;
            weigh_first.apply(all, next, 0, bit_0, bit_1, bit_2, bit_3);
            next = next + 1 >= all.ports ? 8w0 : next + 1;
            weigh_second.apply(all, next, 0, bit_0, bit_1, bit_2, bit_3);
            dlb_next.write(0, next);
            dlb_bands.write(0, bit_0);
            dlb_bands.write(1, bit_1);
            dlb_bands.write(2, bit_2);
            dlb_bands.write(3, bit_3);
        }
    }
}

#endif
