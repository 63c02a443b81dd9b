// Watches the queue that a packet leaves, and computes the rate at which everybody who meets it may send.
//
//   [ fast_cnp_far ] else [ fast_cnp_queue ]  which queue, with what numbers
//     -> count_packet                         what has passed in this window
//     -> weigh_window                         once a window: what came too much or too little
//     -> [ fast_cnp_cut ]                     the part that would have fitted, where far too much came
//     -> close_window                         the rate goes up or down by it, or at once down to that part
//
// The rule is RCP's (Dukkipati et al., IWQoS 2005), in windows and with shifts for divisions: in a loop, the rate changes by the
// part of the capacity that came too much, and half of the part of a loop's capacity that the queue has too much. The loop is the
// longest among the sources that the queue has met of late: they are told as they come (claim.p4), so that the queue does not
// lengthen it. That makes it the same for 2 and 2000 sources, near and far. RCP begins at a low rate and never has to brake; here sources begin at their line's. So where more has come
// than the window took, and more than as many packets as there are shares, the rate is cut to the share that would have fitted, of
// the rate of a loop ago: those who already follow are not made to pay for those that have not heard yet.
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

typedef bit<48> rate_t;                     // bits/s

struct watched_queue_t {
    bit<10> index;
    bit<32> target;         // bytes that it is to hold: enough that noise does not empty it
    bit<32> burst_depth;    // bytes up to which nobody is told, as long as nobody has been
    bit<32> drain;          // bytes that it drains in a tick, in 1/2^16
    ticks_t window;         // 2^window_loop validity units
    bit<8>  window_loop;
    bit<64> unit;           // a validity unit, in 1/256 ticks
    bit<32> share;          // from bytes to 256ths of what a window drains, in 1/2^16
    bit<32> packets;        // bytes of four packets
    bit<32> line;           // what it drains, in 2^16 bits/s
    bit<64> speed;          // from bytes to ticks at 2^16 bits/s
    rate_t  most;           // the fastest line of any source
    rate_t  least;
    bit<1>  far;            // what passes comes; of a port's own queue, what passes has left it
    bit<32> depth;          // in bytes
    rate_t  rate;           // at which everybody may send
}

// What ingress reads, by the index of a queue. Egress writes it:
@id(REGISTER_ID_RATES)
register<rate_t>(WATCHED) fast_cnp_rates;           // 0: the most
@id(REGISTER_ID_WINDOW_BEGINS)
register<ticks_t>(WATCHED) fast_cnp_begins;         // when its window did: when the rate was written
@id(REGISTER_ID_SPANS)
register<bit<8>>(WATCHED) fast_cnp_spans;           // over 2^span units the rate changes by what came too much

// And what ingress writes: the longest loop of a source that a queue has met, in the span before this one 4, and since 4.
@id(REGISTER_ID_LOOPS)
register<bit<8>>(WATCHED) fast_cnp_loops;

const bit<64> OVERHEAD = 24;                // of a packet on the wire, beside its bytes: FCS, preamble, gap
const bit<64> EXCESS_MOST = 0xffff;
const bit<64> BYTES_MOST = 0xffffff;        // in products
const bit<64> TIME_MOST = 0xffffffff;
const bit<64> QUEUE_MOST = 64;              // by its queue alone a rate changes by a quarter a loop
const bit<8>  LOOP_WINDOWS = 2;             // a loop is at least four windows

control WatchQueue(in headers_t hdr, in standard_metadata_t std, out watched_queue_t queue) {
    @id(REGISTER_ID_WINDOW_BYTES)
    register<bit<32>>(WATCHED) window_bytes;
    @id(REGISTER_ID_WINDOW_DEPTHS)
    register<bit<32>>(WATCHED) window_depths;
    @id(REGISTER_ID_BASES)
    register<rate_t>(WATCHED) bases;            // the rate when this loop began
    @id(REGISTER_ID_BASE_TIMES)
    register<ticks_t>(WATCHED) base_times;
    @id(REGISTER_ID_LOWEST_DEPTHS)
    register<bit<32>>(WATCHED) lowest_depths;   // since then
    @id(REGISTER_ID_FAR_BYTES)
    register<bit<48>>(WATCHED) far_bytes;
    @id(REGISTER_ID_FAR_TIMES)
    register<ticks_t>(WATCHED) far_times;

    // Of the window: how long it is, what came, what waited when it began; what of it was too much and too little, in 256ths
    // of what it drains.
    ticks_t passed;
    bit<32> bytes;
    bit<32> depth_before;
    bit<64> less;
    bit<64> more;
    bit<16> excess;
    bit<8>  cut_to;

    @id(ACTION_ID_WATCH_QUEUE)
    action watch_queue(@id(1) bit<32> wanted_depth, @id(2) bit<32> depth_unit, @id(3) bit<32> drain,
                       @id(4) ticks_t window, @id(5) bit<8> window_loop, @id(6) ticks_t unit,
                       @id(7) bit<32> share, @id(8) bit<32> packets, @id(9) bit<32> line,
                       @id(10) bit<48> speed, @id(11) rate_t most, @id(12) rate_t least,
                       @id(13) bit<32> burst_depth) {
        queue.index = (bit<10>)std.egress_port;
        queue.target = wanted_depth;
        queue.burst_depth = burst_depth;
        queue.drain = drain;
        queue.window = window;
        queue.window_loop = window_loop;
        queue.unit = (bit<64>)unit;
        queue.share = share;
        queue.packets = packets;
        queue.line = line;
        queue.speed = (bit<64>)speed;
        queue.most = most;
        queue.least = least;
        queue.far = 0;
        depth_t waits = std.deq_qdepth;
        queue.depth = (bit<32>)waits * depth_unit;
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

    // `drain`: as the far port drains.
    @id(ACTION_ID_WATCH_FAR_QUEUE)
    action watch_far_queue(@id(1) bit<10> index, @id(2) bit<32> wanted_depth, @id(3) bit<32> drain,
                           @id(4) ticks_t window, @id(5) bit<8> window_loop, @id(6) ticks_t unit,
                           @id(7) bit<32> share, @id(8) bit<32> packets, @id(9) bit<32> line,
                           @id(10) bit<48> speed, @id(11) rate_t most, @id(12) rate_t least,
                           @id(13) bit<32> burst_depth) {
        bit<48> held;
        ticks_t then;
        far_bytes.read(held, (bit<32>)index);
        far_times.read(then, (bit<32>)index);
        bit<80> time = (bit<80>)(std.egress_global_timestamp - then);
        bit<80> drained = (time * (bit<80>)drain) >> 16;
        held = drained < (bit<80>)held ? held - (bit<48>)drained : 0;
        held = held + (bit<48>)std.packet_length;
        far_bytes.write((bit<32>)index, held);
        far_times.write((bit<32>)index, std.egress_global_timestamp);
        queue.index = index;
        queue.target = wanted_depth;
        queue.burst_depth = burst_depth;
        queue.drain = drain;
        queue.window = window;
        queue.window_loop = window_loop;
        queue.unit = (bit<64>)unit;
        queue.share = share;
        queue.packets = packets;
        queue.line = line;
        queue.speed = (bit<64>)speed;
        queue.most = most;
        queue.least = least;
        queue.far = 1;
        queue.depth = held > 0xffffffff ? 32w0xffffffff : (bit<32>)held;
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

    // Adds the packet to the window. The one that ends it takes what was counted, and begins a new one.
    action count_packet() {
        ticks_t begins;
        ticks_t now = std.egress_global_timestamp;
        fast_cnp_begins.read(begins, (bit<32>)queue.index);
        window_bytes.read(bytes, (bit<32>)queue.index);
        window_depths.read(depth_before, (bit<32>)queue.index);
        bytes = bytes + std.packet_length + (bit<32>)OVERHEAD;
        passed = now - begins;
        bool ends = passed >= queue.window;
        fast_cnp_begins.write((bit<32>)queue.index, ends ? now : begins);
        window_bytes.write((bit<32>)queue.index, ends ? 0 : bytes);
        window_depths.write((bit<32>)queue.index, ends ? queue.depth : depth_before);
    }

    action recall_rate() {
        fast_cnp_rates.read(queue.rate, (bit<32>)queue.index);
        queue.rate = queue.rate == 0 ? queue.most : queue.rate;
    }

    // How much came, and how much of it was too much or too little, in 256ths of a window.
    action weigh_window() {
        bit<64> time = (bit<64>)passed > TIME_MOST ? TIME_MOST : (bit<64>)passed;
        bit<64> depth = (bit<64>)queue.depth;
        bit<64> came = (bit<64>)bytes + (queue.far == 1 ? 64w0 : depth);
        bit<64> fits = ((time * (bit<64>)queue.drain) >> 16) + (queue.far == 1 ? 64w0 : (bit<64>)depth_before);
        less = came > fits ? came - fits : 0;
        more = came > fits ? 0 : fits - came;
        less = less > BYTES_MOST ? BYTES_MOST : less;
        more = more > BYTES_MOST ? BYTES_MOST : more;
        less = (less * (bit<64>)queue.share) >> 16;
        more = (more * (bit<64>)queue.share) >> 16;
        less = less > EXCESS_MOST ? EXCESS_MOST : less;
        more = more > EXCESS_MOST ? EXCESS_MOST : more;
        excess = (bit<16>)less;
        cut_to = 0;
    }

    // `part`: what would have fitted of what came, in 1/256.
    @id(ACTION_ID_CUT_TO_PART)
    action cut_to_part(@id(1) bit<8> part) {
        cut_to = part;
    }

    @id(ACTION_ID_SKIP_CUT)
    action skip_cut() {
    }

    @id(TABLE_ID_FAST_CNP_CUT)
    @name(".FabricEgress.fast_cnp.fast_cnp_cut")
    table fast_cnp_cut {
        key = { excess: range @name("excess"); }
        actions = { cut_to_part; @defaultonly skip_cut; }
        const default_action = skip_cut();
        size = 64;
    }

    action close_window() {
        bit<32> index = (bit<32>)queue.index;
        ticks_t now = std.egress_global_timestamp;
        bit<64> time = (bit<64>)passed > TIME_MOST ? TIME_MOST : (bit<64>)passed;
        bit<64> depth = (bit<64>)queue.depth;
        rate_t was;
        fast_cnp_rates.read(was, index);
        was = was == 0 ? queue.most : was;
        bit<64> rate = (bit<64>)was;

        // The loop: twice the longest of a source of late, since a word's interval, its way and a window pass until it shows.
        bit<8> longest;
        fast_cnp_loops.read(longest, index);
        bit<8> loop = ((longest & 0xf) > (longest >> 4) ? longest & 0xf : longest >> 4) + 1;
        bit<8> least = queue.window_loop + LOOP_WINDOWS;
        loop = loop > least ? loop : least;
        // And two packets of a source at the rate: it hears of it with one, and is seen to follow with the next.
        bit<64> sends = (queue.unit << loop) >> 8;
        sends = (sends > TIME_MOST ? TIME_MOST : sends) * (rate >> 16);
        bit<64> two = (bit<64>)(queue.packets >> 1) * queue.speed;
        bit<8> doubled = sends << 3 < two ? 8w4 : 8w0;
        bit<8> again = sends << doubled << 1 < two ? 8w2 : 8w0;
        doubled = doubled + again;
        again = sends << doubled < two ? 8w1 : 8w0;
        loop = loop + doubled + again;
        bit<8> windows = loop - queue.window_loop;
        bit<64> ticks = (queue.unit << loop) >> 8;
        fast_cnp_spans.write(index, loop);

        // What the queue has too much or too little, in 512ths of what a loop drains.
        bit<64> high = depth > (bit<64>)queue.target ? depth - (bit<64>)queue.target : 0;
        bit<64> low = depth > (bit<64>)queue.target ? 0 : (bit<64>)queue.target - depth;
        bit<8> half = windows + 1;
        high = high > BYTES_MOST ? BYTES_MOST : high;
        high = ((high * (bit<64>)queue.share) >> 16) >> half;
        low = ((low * (bit<64>)queue.share) >> 16) >> half;
        less = less + (high > QUEUE_MOST ? QUEUE_MOST : high);
        more = more + (low > QUEUE_MOST ? QUEUE_MOST : low);

        // The rate: changes by that part, over a loop.
        bit<8> shift = windows + 8;
        bit<64> change = less > more ? less - more : more - less;
        change = (rate * change) >> shift;
        change = change > rate >> 1 ? rate >> 1 : change;
        rate = less > more ? rate - change : rate + change;
        // A queue that was empty for long, and longer than four packets of the rate take, knows nothing any more.
        bool idle = (bit<64>)passed > ticks << 2 &&
                    time * (rate >> 16) > (bit<64>)queue.packets * queue.speed;
        // Nobody is told before the queue has held more than a burst.
        bool fine = was == queue.most && queue.depth <= queue.burst_depth;
        rate = rate > (bit<64>)queue.most || idle || fine ? (bit<64>)queue.most : rate;
        rate = rate < (bit<64>)queue.least ? (bit<64>)queue.least : rate;

        // What it was a loop ago, and how short the queue has been since.
        rate_t base;
        ticks_t base_time;
        bit<32> lowest;
        bases.read(base, index);
        base_times.read(base_time, index);
        lowest_depths.read(lowest, index);
        bool begins = (bit<64>)(now - base_time) >= ticks || idle || base == 0;
        base = begins ? (rate_t)rate : base;
        lowest = begins || queue.depth < lowest ? queue.depth : lowest;
        bases.write(index, base);
        base_times.write(index, begins ? now : base_time);
        lowest_depths.write(index, lowest);

        // Of N sources that share it N packets may come at once. N is line / rate.
        bool noise = fine || depth <= (bit<64>)queue.target ||
            (bit<64>)(queue.depth - lowest) * (rate >> 16) <= (bit<64>)queue.packets * (bit<64>)queue.line;
        bit<64> cut = ((bit<64>)base * (bit<64>)cut_to) >> 8;
        cut = cut < (bit<64>)queue.least ? (bit<64>)queue.least : cut;
        rate = cut_to != 0 && !noise && cut < rate ? cut : rate;

        fast_cnp_rates.write(index, rate == (bit<64>)queue.most ? 0 : (rate_t)rate);
        queue.rate = (rate_t)rate;
    }

    // Where no queue is watched, `queue` stays zero: its rate is not below the most.
    apply {
        queue = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 };
        bool watched = true;
        if (!fast_cnp_far.apply().hit) {
            watched = fast_cnp_queue.apply().hit;
        }
        if (watched) {
            count_packet();
            if (passed >= queue.window) {
                weigh_window();
                fast_cnp_cut.apply();
                close_window();
            } else {
                recall_rate();
            }
        }
    }
}

#endif
