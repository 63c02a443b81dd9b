// Watches the queue that a packet leaves: how deep it is on average, and how fast it grows.
//
//   [ fast_cnp_far ] else [ fast_cnp_queue ]  which queue, with what thresholds
//     -> observe_queue                        smoothed depth, growth over a window
//
// A watched queue is a port's own, or one that exists only as a number: a gateway watches a port at
// the far end of a long link by draining that number at the far port's rate. Far queues are shared by
// ports, so the cells of a queue's state are read and written in one action.

#ifndef WEFT_FAST_CNP_WATCH_P4
#define WEFT_FAST_CNP_WATCH_P4

#include "../../include/constants.p4"
#include "../../include/headers.p4"
#include "ids.p4"

#define WATCHED 1024                        // ports, then far queues

struct watched_queue_t {
    bit<10> index;
    depth_t low;
    depth_t high;
    bit<8>  smoothing;      // the average moves by 2^-smoothing of the distance, a packet
    ticks_t window;         // over which growth is measured
    ticks_t idle;           // after so long without a packet growth is unknown
    bit<32> growth_scale;   // from depth a window to 64ths of the queue's own rate, in 1/2^16
    bit<32> cell_scale;     // from depth to cells of 256 bytes, in 1/2^8
    ticks_t gap;            // between two CNPs of this queue, on average
    ticks_t burst;          // how much earlier than that one may come
    bit<32> depth;          // as it is
    bit<32> smoothed;
    bit<16> growth;         // GROWTH_ZERO: none; 64 more: as much again as the queue drains; 0: unknown
    bit<1>  deep;           // above the high threshold
}

const bit<16> GROWTH_ZERO = 128;
const bit<48> GROWTH_MOST = 4095;
const bit<48> GROWTH_LEAST = 127;           // it can't drain by more than twice its rate

control WatchQueue(in headers_t hdr, in standard_metadata_t std, out watched_queue_t queue) {
    @id(REGISTER_ID_SMOOTHED_DEPTHS)
    register<bit<32>>(WATCHED) smoothed_depths;     // times 2^smoothing
    @id(REGISTER_ID_WINDOW_BEGINS)
    register<ticks_t>(WATCHED) window_begins;
    @id(REGISTER_ID_WINDOW_DEPTHS)
    register<bit<32>>(WATCHED) window_depths;
    @id(REGISTER_ID_GROWTHS)
    register<bit<16>>(WATCHED) growths;
    @id(REGISTER_ID_FAR_BYTES)
    register<bit<48>>(WATCHED) far_bytes;
    @id(REGISTER_ID_FAR_TIMES)
    register<ticks_t>(WATCHED) far_times;

    @id(ACTION_ID_WATCH_QUEUE)
    action watch_queue(@id(1) depth_t low, @id(2) depth_t high, @id(3) bit<8> smoothing,
                       @id(4) ticks_t window, @id(5) bit<32> growth_scale, @id(6) bit<32> cell_scale,
                       @id(7) ticks_t gap, @id(8) ticks_t burst, @id(9) ticks_t idle) {
        queue.index = (bit<10>)std.egress_port;
        queue.low = low;
        queue.high = high;
        queue.smoothing = smoothing;
        queue.window = window;
        queue.idle = idle;
        queue.growth_scale = growth_scale;
        queue.cell_scale = cell_scale;
        queue.gap = gap;
        queue.burst = burst;
        queue.depth = (bit<32>)std.deq_qdepth;
    }

    @id(ACTION_ID_SKIP_QUEUE)
    action skip_queue() {
    }

    @id(TABLE_ID_FAST_CNP_QUEUE)
    @name(".FabricEgress.fast_cnp.fast_cnp_queue")
    table fast_cnp_queue {
        key = {
            std.egress_port: exact @name("port");
            std.priority: exact @name("class");
        }
        actions = { watch_queue; @defaultonly skip_queue; }
        const default_action = skip_queue();
        size = PORTS * 8;
    }

    // `drain`: bytes a tick that the far port takes, in 1/2^16. Depth is in cells of 256 bytes.
    @id(ACTION_ID_WATCH_FAR_QUEUE)
    action watch_far_queue(@id(1) bit<10> index, @id(2) bit<32> drain, @id(3) depth_t low,
                           @id(4) depth_t high, @id(5) bit<8> smoothing, @id(6) ticks_t window,
                           @id(7) bit<32> growth_scale, @id(8) ticks_t gap, @id(9) ticks_t burst,
                           @id(10) ticks_t idle) {
        bit<48> bytes;
        ticks_t then;
        far_bytes.read(bytes, (bit<32>)index);
        far_times.read(then, (bit<32>)index);
        bit<80> passed = (bit<80>)(std.egress_global_timestamp - then);
        bit<80> drained = (passed * (bit<80>)drain) >> 16;
        bytes = drained < (bit<80>)bytes ? bytes - (bit<48>)drained : 0;
        bytes = bytes + (bit<48>)std.packet_length;
        far_bytes.write((bit<32>)index, bytes);
        far_times.write((bit<32>)index, std.egress_global_timestamp);
        queue.index = index;
        queue.low = low;
        queue.high = high;
        queue.smoothing = smoothing;
        queue.window = window;
        queue.idle = idle;
        queue.growth_scale = growth_scale;
        queue.cell_scale = 256;
        queue.gap = gap;
        queue.burst = burst;
        queue.depth = (bit<32>)(bytes >> 8);
    }

    @id(TABLE_ID_FAST_CNP_FAR)
    @name(".FabricEgress.fast_cnp.fast_cnp_far")
    table fast_cnp_far {
        key = {
            std.egress_port: exact @name("port");
            hdr.ipv4.dst: exact @name("destination");
        }
        actions = { watch_far_queue; @defaultonly skip_queue; }
        const default_action = skip_queue();
        size = 1024;
    }

    action observe_queue() {
        ticks_t begins;
        window_begins.read(begins, (bit<32>)queue.index);
        ticks_t passed = std.egress_global_timestamp - begins;
        bool over = passed >= queue.window;
        bool stale = passed > queue.idle;       // also after a time in which nobody looked

        bit<32> total;
        smoothed_depths.read(total, (bit<32>)queue.index);
        total = total - (total >> queue.smoothing) + queue.depth;
        total = stale ? queue.depth << queue.smoothing : total;
        smoothed_depths.write((bit<32>)queue.index, total);
        queue.smoothed = total >> queue.smoothing;
        queue.deep = queue.smoothed > (bit<32>)queue.high ? 1w1 : 1w0;

        bit<32> before;
        bit<16> growth;
        window_depths.read(before, (bit<32>)queue.index);
        growths.read(growth, (bit<32>)queue.index);
        bit<48> up = queue.depth > before ? (bit<48>)(queue.depth - before) : 0;
        bit<48> down = queue.depth < before ? (bit<48>)(before - queue.depth) : 0;
        up = ((up & 0xffff) * (bit<48>)queue.growth_scale) >> 16;
        down = ((down & 0xffff) * (bit<48>)queue.growth_scale) >> 16;
        up = up > GROWTH_MOST ? GROWTH_MOST : up;
        down = down > GROWTH_LEAST ? GROWTH_LEAST : down;
        growth = over ? GROWTH_ZERO + (bit<16>)up - (bit<16>)down : growth;
        growth = stale ? 0 : growth;
        window_begins.write((bit<32>)queue.index, over ? std.egress_global_timestamp : begins);
        window_depths.write((bit<32>)queue.index, over ? queue.depth : before);
        growths.write((bit<32>)queue.index, growth);
        queue.growth = growth;
    }

    // Where no queue is watched, `queue` stays zero: neither deep nor growing.
    apply {
        queue = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 };
        bool watched = true;
        if (!fast_cnp_far.apply().hit) {
            watched = fast_cnp_queue.apply().hit;
        }
        if (watched) {
            observe_queue();
        }
    }
}

#endif
