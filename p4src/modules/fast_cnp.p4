// Fast CNP: the switch that sees a queue grow tells the source itself, a receiver's round trip before
// the receiver could. docs/fast-cnp.md explains it with numbers.
//
//   a data packet leaves a watched queue
//     -> [ observe ] smoothed depth, growth -> deep enough?
//     -> [ fast_cnp_source ] who sent it: reads notifications | stock NIC -> [ stock_queue_pairs ] | nobody
//     -> [ fast_cnp_severity ] how much is too much
//     -> [ claim ] not told within the interval, and the port may -> copy
//   the copy, in egress of RECIRCULATION_PORT
//     -> becomes a CNP to the source -> ingress -> routed as any packet
//
// A watched queue is a port's own, or one that exists only as a number: a gateway answers for a port at
// the far end of a long link ([ fast_cnp_far ]) by draining that number at the far port's rate.
//
// Cells of a watched queue's state are written in one action each: far queues are shared by ports.

#ifndef WEFT_FAST_CNP_P4
#define WEFT_FAST_CNP_P4

#include "../include/constants.p4"
#include "../include/headers.p4"
#include "host_guard.p4"

typedef bit<48> ticks_t;        // of the target's clock: microseconds or nanoseconds

const port_t RECIRCULATION_PORT = 510;      // no interface: what leaves here enters again
const bit<32> FAST_CNP_SESSION = 510;       // clone session to that port
const bit<32> FAST_CNP_BYTES = 74;          // Ethernet 14, IPv4 20, UDP 8, BTH 12, notification 16, ICRC 4
const bit<8> CNP_TTL = 64;

#define WATCHED 1024                        // ports, then far queues

// What becomes of a packet that met a queue above its low threshold; the index of its counter.
enum bit<8> FastCnpOutcome {
    SENT            = 0,
    INTERVAL        = 1,    // the flow has been told a moment ago
    ALREADY_TOLD    = 2,    // by a switch before this one
    PORT_LIMIT      = 3,    // the port has sent as many as it may
    COLLISION       = 4,    // other flows hold both cells that this one may use
    NOBODY          = 5,    // a source that is not in the table
    UNKNOWN_QP      = 6,    // of a stock NIC: the source's queue pair is not known
    AMBIGUOUS_QP    = 7     // of a stock NIC: it might be one of several
}

struct watched_queue_t {
    bit<10> index;
    depth_t low;
    depth_t high;
    bit<8>  smoothing;      // the average moves by 2^-smoothing of the distance, a packet
    ticks_t window;         // growth is measured over so long
    ticks_t idle;           // after so long without a packet it is not known
    bit<32> growth_scale;   // from depth a window to 64ths of the queue's own rate, in 1/2^16
    bit<32> cell_scale;     // from depth to cells of 256 bytes, in 1/2^8
    ticks_t gap;            // between two CNPs of this queue, on average
    ticks_t burst;          // so much earlier may one come
    bit<32> depth;          // as it is
    bit<32> smoothed;
    bit<16> growth;         // GROWTH_ZERO: none; 64 more: as much again as the queue drains; 0: not known
    bit<1>  deep;           // above the high threshold
}

const bit<16> GROWTH_ZERO = 128;
const bit<48> GROWTH_MOST = 4095;
const bit<48> GROWTH_LEAST = 127;           // it can't drain by more than twice its rate

// In ingress: what recirculates has the payload again that it was cut off from.
control FastCnpReturn(in standard_metadata_t std) {
    apply {
        if (std.instance_type == RECIRCULATED) {
            truncate(FAST_CNP_BYTES);
        }
    }
}

control FastCnp(inout headers_t hdr, inout local_metadata_t meta,
                inout standard_metadata_t std) {
    watched_queue_t queue;
    ticks_t interval;
    bit<32> way_a;
    bit<32> way_b;
    bit<15> fingerprint;
    FastCnpOutcome outcome;

    register<bit<32>>(WATCHED) smoothed_depths;     // times 2^smoothing
    register<ticks_t>(WATCHED) window_begins;
    register<bit<32>>(WATCHED) window_depths;
    register<bit<16>>(WATCHED) growths;
    register<ticks_t>(WATCHED) next_cnps;
    register<bit<12>>(WATCHED) sequences;
    register<bit<64>>(FAST_CNP_FLOWS) flows_a;      // 1, fingerprint 15, when it was told 48
    register<bit<64>>(FAST_CNP_FLOWS) flows_b;
    register<bit<48>>(WATCHED) far_bytes;
    register<ticks_t>(WATCHED) far_times;

    @id(0x12000007)
    counter(PORTS * 8, CounterType.packets) fast_cnps;  // by port and FastCnpOutcome

    // ------------------------------------------------------------ is the queue too long?

    @id(0x01000801)
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

    @id(0x01000802)
    action off() {
    }

    @id(0x02000801)
    table fast_cnp_queue {
        key = {
            std.egress_port: exact @name("port");
            std.priority: exact @name("class");
        }
        actions = { watch_queue; @defaultonly off; }
        const default_action = off();
        size = PORTS * 8;
    }

    // `drain`: bytes a tick that the far port takes, in 1/2^16. Depth is in cells of 256 bytes.
    @id(0x01000803)
    action answer_for(@id(1) bit<10> index, @id(2) bit<32> drain, @id(3) depth_t low,
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

    @id(0x02000802)
    table fast_cnp_far {
        key = {
            std.egress_port: exact @name("port");
            hdr.ipv4.dst: exact @name("destination");
        }
        actions = { answer_for; @defaultonly off; }
        const default_action = off();
        size = 1024;
    }

    action observe() {
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

    // ------------------------------------------------------------ whom to tell

    // `stands` goes into the notification's validity: it covers the loop from here to the source and back.
    @id(0x01000804)
    action understands(@id(1) bit<4> stands, @id(2) ticks_t every) {
        meta.fast_cnp.understood = 1;
        meta.fast_cnp.validity = stands;
        meta.fast_cnp.source_qp = 0;
        interval = every;
    }

    @id(0x01000805)
    action stock(@id(1) ticks_t every) {
        meta.fast_cnp.understood = 0;
        meta.fast_cnp.validity = 0;
        interval = every;
    }

    @id(0x01000806)
    action nobody() {
        outcome = FastCnpOutcome.NOBODY;
    }

    @id(0x02000803)
    table fast_cnp_source {
        key = { hdr.ipv4.src: exact @name("source"); }
        actions = { understands; stock; @defaultonly nobody; }
        const default_action = nobody();
        size = FAST_CNP_SOURCES;
    }

    @id(0x01000807)
    action source_is(@id(1) qp_t qp) {
        meta.fast_cnp.source_qp = qp;
    }

    @id(0x01000808)
    action ambiguous() {
        outcome = FastCnpOutcome.AMBIGUOUS_QP;
    }

    @id(0x01000809)
    action unknown() {
        outcome = FastCnpOutcome.UNKNOWN_QP;
    }

    @id(0x02000804)
    table stock_queue_pairs {
        key = {
            hdr.ipv4.dst: exact @name("destination");
            hdr.bth.destination_qp: exact @name("qp");
        }
        actions = { source_is; ambiguous; @defaultonly unknown; }
        const default_action = unknown();
        size = STOCK_QUEUE_PAIRS;
    }

    // ------------------------------------------------------------ how much is too much

    @id(0x0100080a)
    action severity_is(@id(1) bit<4> severity) {
        meta.fast_cnp.severity = severity;
    }

    @id(0x02000805)
    table fast_cnp_severity {
        key = {
            queue.deep: exact @name("deep");
            queue.growth: range @name("growth");
        }
        actions = { severity_is; }
        default_action = severity_is(0);
        size = 64;
    }

    // ------------------------------------------------------------ now?

    // Two flows that share a cell must not silence each other: one whose both cells are taken by flows
    // that were told within the interval gets no fast CNP for now, and is marked as if there were none.
    action claim() {
        bit<64> a;
        bit<64> b;
        ticks_t next;
        ticks_t now = std.egress_global_timestamp;
        flows_a.read(a, way_a);
        flows_b.read(b, way_b);
        next_cnps.read(next, (bit<32>)queue.index);
        bool a_free = a[63:63] == 0 || now - a[47:0] >= interval;
        bool b_free = b[63:63] == 0 || now - b[47:0] >= interval;
        bool told = (!a_free && a[62:48] == fingerprint) || (!b_free && b[62:48] == fingerprint);
        bool taken = !a_free && !b_free;
        bool early = next > now + queue.burst;
        bool send = !told && !taken && !early;
        flows_a.write(way_a, send && a_free ? 1w1 ++ fingerprint ++ now : a);
        flows_b.write(way_b, send && !a_free ? 1w1 ++ fingerprint ++ now : b);
        next_cnps.write((bit<32>)queue.index, send ? (next > now ? next : now) + queue.gap : next);
        outcome = early ? FastCnpOutcome.PORT_LIMIT : FastCnpOutcome.SENT;
        outcome = taken ? FastCnpOutcome.COLLISION : outcome;
        outcome = told ? FastCnpOutcome.INTERVAL : outcome;
    }

    action number() {
        sequences.read(meta.fast_cnp.sequence, (bit<32>)queue.index);
        meta.fast_cnp.sequence = meta.fast_cnp.sequence + 1;
        sequences.write((bit<32>)queue.index, meta.fast_cnp.sequence);
    }

    action describe_queue() {
        bit<64> cells = ((bit<64>)queue.depth * (bit<64>)queue.cell_scale) >> 8;
        meta.fast_cnp.made = 1;
        meta.fast_cnp.queue = cells > 0xffff ? 16w0xffff : (bit<16>)cells;
        meta.fast_cnp.port = std.egress_port;
        meta.fast_cnp.router_mac = meta.router_mac;
    }

    // ------------------------------------------------------------ the copy becomes the CNP

    action become_cnp(bit<6> dscp, bit<16> switch_id) {
        ipv4_addr_t destination = hdr.ipv4.dst;
        hdr.ethernet.dst = meta.fast_cnp.router_mac;
        hdr.ethernet.src = meta.fast_cnp.router_mac;
        hdr.notification.setValid();
        hdr.notification.type = NotificationType.CONGESTION;
        hdr.notification.severity = meta.fast_cnp.severity;
        hdr.notification.hops = 0;
        hdr.notification.validity = meta.fast_cnp.validity;
        hdr.notification.switch_id = switch_id;
        hdr.notification.port = (bit<12>)meta.fast_cnp.port;
        hdr.notification.sequence = meta.fast_cnp.sequence;
        hdr.notification.destination = destination;
        hdr.notification.destination_qp = hdr.bth.destination_qp;
        hdr.notification.queue = meta.fast_cnp.queue;

        // As the destination would send it: a NIC takes CNPs from its queue pair's peer only.
        hdr.ipv4.version = 4;
        hdr.ipv4.ihl = 5;
        hdr.ipv4.dscp = dscp;
        hdr.ipv4.ecn = Ecn.NOT_CAPABLE;
        hdr.ipv4.length = (bit<16>)(FAST_CNP_BYTES - 14);
        hdr.ipv4.id = 0;
        hdr.ipv4.reserved = 0;
        hdr.ipv4.dont_fragment = 1;
        hdr.ipv4.more_fragments = 0;
        hdr.ipv4.fragment = 0;
        hdr.ipv4.ttl = CNP_TTL;
        hdr.ipv4.protocol = IpProtocol.UDP;
        hdr.ipv4.dst = hdr.ipv4.src;
        hdr.ipv4.src = destination;
        hdr.udp.dst_port = ROCE_V2_PORT;
        hdr.udp.length = (bit<16>)(FAST_CNP_BYTES - 34);
        hdr.udp.checksum = 0;
        hdr.bth.opcode = BthOpcode.CNP;
        hdr.bth.solicited = 0;
        hdr.bth.migrated = 0;
        hdr.bth.padding = 0;
        hdr.bth.version = 0;
        hdr.bth.partition = 0xffff;
        hdr.bth.fecn = 0;
        hdr.bth.becn = 1;
        hdr.bth.reserved_6 = 0;
        hdr.bth.destination_qp = meta.fast_cnp.source_qp;
        hdr.bth.acknowledge = 0;
        hdr.bth.reserved_7 = 0;
        hdr.bth.sequence = 0;
        hdr.ipv4_options.setInvalid();
        hdr.reth.setInvalid();
        hdr.aeth.setInvalid();
    }

    // Over eight bytes of ones and the packet from IPv4 on, what routers change as ones: TOS, TTL, both
    // checksums, BTH's fifth byte (InfiniBand vol. 1, annex A17). On the wire from its least significant byte on.
    action write_icrc() {
        bit<32> crc;
        // In words of 64 bits: the target copies what it hashes.
        hash(crc, HashAlgorithm.crc32, 32w0, {
            64w0xffffffffffffffff,
            hdr.ipv4.version ++ hdr.ipv4.ihl ++ 8w0xff ++ hdr.ipv4.length ++ hdr.ipv4.id ++
                hdr.ipv4.reserved ++ hdr.ipv4.dont_fragment ++ hdr.ipv4.more_fragments ++
                hdr.ipv4.fragment,
            8w0xff ++ (bit<8>)hdr.ipv4.protocol ++ 16w0xffff ++ hdr.ipv4.src,
            hdr.ipv4.dst ++ hdr.udp.src_port ++ hdr.udp.dst_port,
            hdr.udp.length ++ 16w0xffff ++ (bit<8>)hdr.bth.opcode ++ hdr.bth.solicited ++
                hdr.bth.migrated ++ hdr.bth.padding ++ hdr.bth.version ++ hdr.bth.partition,
            8w0xff ++ hdr.bth.destination_qp ++ hdr.bth.acknowledge ++ hdr.bth.reserved_7 ++
                hdr.bth.sequence,
            (bit<4>)hdr.notification.type ++ hdr.notification.severity ++ hdr.notification.hops ++
                hdr.notification.validity ++ hdr.notification.switch_id ++
                hdr.notification.port ++ hdr.notification.sequence ++
                hdr.notification.destination[31:24],
            hdr.notification.destination[23:0] ++ hdr.notification.destination_qp ++
                hdr.notification.queue
        }, 64w0x100000000);
        hdr.icrc.setValid();
        hdr.icrc.value = crc[7:0] ++ crc[15:8] ++ crc[23:16] ++ crc[31:24];
    }

    // The feature's switch, and what it writes into every CNP.
    @id(0x0100080b)
    action run(@id(1) bit<6> dscp, @id(2) bit<16> switch_id) {
        meta.fast_cnp.on = 1;
        meta.fast_cnp.dscp = dscp;
        meta.fast_cnp.switch_id = switch_id;
    }

    @id(0x0100080c)
    action stand_still() {
        meta.fast_cnp.on = 0;
    }

    @id(0x02000806)
    table fast_cnp_mode {
        actions = { run; stand_still; }
        default_action = stand_still();
    }

    apply {
        fast_cnp_mode.apply();
        if (std.egress_port == RECIRCULATION_PORT && meta.fast_cnp.made == 1) {
            if (meta.fast_cnp.on == 1) {
                become_cnp(meta.fast_cnp.dscp, meta.fast_cnp.switch_id);
                write_icrc();
                recirculate_preserving_field_list(NOTHING);
            } else {
                mark_to_drop(std);
            }
        } else if (meta.fast_cnp.on == 1 && hdr.bth.isValid() &&
                   hdr.bth.opcode != BthOpcode.RC_ACKNOWLEDGE && hdr.bth.opcode != BthOpcode.CNP &&
                   hdr.bth.opcode != BthOpcode.RC_READ_REQUEST) {
            queue = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 };
            interval = 0;
            bool watched = true;
            if (!fast_cnp_far.apply().hit) {
                watched = fast_cnp_queue.apply().hit;
            }
            if (watched) {
                observe();
                // Who is told before it is known how much is too much would not be told again for long.
                if (queue.smoothed > (bit<32>)queue.low && queue.growth != 0) {
                    outcome = FastCnpOutcome.SENT;
                    if (hdr.bth.reserved_6[0:0] == 1) {
                        outcome = FastCnpOutcome.ALREADY_TOLD;
                    } else if (fast_cnp_source.apply().hit) {
                        if (meta.fast_cnp.understood == 0) {
                            stock_queue_pairs.apply();
                        }
                        if (outcome == FastCnpOutcome.SENT) {
                            fast_cnp_severity.apply();
                            hash(way_a, HashAlgorithm.crc32, 32w0,
                                 { hdr.ipv4.src, hdr.ipv4.dst, hdr.bth.destination_qp },
                                 (bit<32>)FAST_CNP_FLOWS);
                            hash(way_b, HashAlgorithm.crc32, 32w0,
                                 { 8w1, hdr.bth.destination_qp, hdr.ipv4.dst, hdr.ipv4.src },
                                 (bit<32>)FAST_CNP_FLOWS);
                            hash(fingerprint, HashAlgorithm.crc16, 15w0,
                                 { hdr.ipv4.src, hdr.bth.destination_qp, hdr.ipv4.dst }, 32w0x8000);
                            claim();
                            bool sent = outcome == FastCnpOutcome.SENT;
                            if (sent || outcome == FastCnpOutcome.INTERVAL) {
                                hdr.bth.reserved_6[0:0] = 1;
                                meta.fast_cnp.told = meta.fast_cnp.understood;
                            }
                            if (sent) {
                                meta.fast_cnp.must_mark = 1 - meta.fast_cnp.understood;
                                number();
                                describe_queue();
                                clone_preserving_field_list(CloneType.E2E, FAST_CNP_SESSION,
                                                            FAST_CNP);
                            }
                        }
                    }
                    fast_cnps.count((bit<32>)std.egress_port << 3 |
                                    (bit<32>)(bit<8>)outcome);
                }
            }
        }
    }
}

#endif
