// A switch that adds: the slot logic of AllReduce in the network, written by hand.
//
//   worker 0 --+                                            +--> worker 0
//   worker 1 --+--> slot, version: 8 sums, and who is in ---+--> worker 1     the last contribution
//   worker 2 --+                                            +--> worker 2     goes to all, as the result
//   worker 3 --+                                            +--> worker 3
//
// Compile:  weft compile labs/allreduce-by-hand/starter.p4 -o build/adder
// Grade:    weft grade allreduce-by-hand --p4 labs/allreduce-by-hand/starter.p4
//
// It compiles, and drops everything. Parsing, addresses, and the check of what a packet claims are
// done; the numbered TODOs are the slot logic. README.md explains each. Variables that the compiler
// calls unused are there for them. The packet format is that of docs/allreduce.md; this switch has
// one job, one level, one epoch, and no exponents.

#include <core.p4>
#include <v1model.p4>

typedef bit<48> mac_addr_t;
typedef bit<32> ipv4_addr_t;
typedef bit<8>  workers_t;              // a set of workers: bit n is worker n
typedef bit<32> cell_t;                 // one version of one slot: an index of the registers

const bit<16> ETHERTYPE_IPV4 = 0x0800;
const bit<8>  PROTOCOL_UDP = 17;
const bit<16> ALLREDUCE_PORT = 28792;
const bit<32> SLOTS = 8;                // a power of two
const bit<32> CELLS = 16;               // two versions of each slot
const bit<16> LANES = 8;                // integers in a packet
const bit<16> WORKERS_GROUP = 1;        // the multicast group of all workers' ports
const ipv4_addr_t SWITCH_ADDRESS = 0xc0000008;      // 192.0.0.8

header ethernet_t {
    mac_addr_t dst;
    mac_addr_t src;
    bit<16>    type;
}

header ipv4_t {
    bit<4>      version;
    bit<4>      ihl;
    bit<8>      tos;
    bit<16>     length;
    bit<16>     id;
    bit<3>      flags;
    bit<13>     fragment;
    bit<8>      ttl;
    bit<8>      protocol;
    bit<16>     checksum;
    ipv4_addr_t src;
    ipv4_addr_t dst;
}

header udp_t {
    bit<16> src_port;
    bit<16> dst_port;
    bit<16> length;
    bit<16> checksum;                   // 0: none
}

enum bit<8> Kind {
    CONTRIBUTION = 1,                   // up
    RESULT       = 2                    // down
}

header allreduce_t {
    Kind    kind;
    bit<7>  unused;
    bit<1>  overflow;                   // some addition left int32
    bit<16> job;
    bit<16> epoch;                      // always 0 here
    bit<1>  version;                    // (chunk / SLOTS) mod 2
    bit<15> slot;                       // chunk mod SLOTS
    bit<32> chunk;                      // counts on over all calls, and wraps
    bit<8>  exponent;                   // always 0 here
    bit<8>  reserved;
    bit<16> lanes;                      // always LANES here
}

header lanes_t {
    bit<32> lane_0;
    bit<32> lane_1;
    bit<32> lane_2;
    bit<32> lane_3;
    bit<32> lane_4;
    bit<32> lane_5;
    bit<32> lane_6;
    bit<32> lane_7;
}

struct lab_headers_t {
    ethernet_t  ethernet;
    ipv4_t      ipv4;
    udp_t       udp;
    allreduce_t allreduce;
    lanes_t     lanes;
}

struct lab_metadata_t {
    workers_t own;                      // the bit of the worker that sent the packet
    workers_t all;                      // the bits of all workers of the job
    cell_t    cell;                     // the packet's slot and version
}

// ---------------------------------------------------------------- what the switch remembers

register<bit<32>>(CELLS) chunks;        // the chunk that a cell is about
register<workers_t>(CELLS) bitmaps;     // who has contributed to it; none: the cell is unused
register<bit<1>>(CELLS) overflows;      // whether some addition left int32

parser LabParser(packet_in packet, out lab_headers_t hdr, inout lab_metadata_t meta,
                 inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.type) {
            ETHERTYPE_IPV4: parse_ipv4;
            default: accept;
        }
    }

    state parse_ipv4 {
        packet.extract(hdr.ipv4);
        transition select(hdr.ipv4.ihl, hdr.ipv4.fragment, hdr.ipv4.protocol) {
            (5, 0, PROTOCOL_UDP): parse_udp;
            default: accept;
        }
    }

    state parse_udp {
        packet.extract(hdr.udp);
        transition select(hdr.udp.dst_port) {
            ALLREDUCE_PORT: parse_allreduce;
            default: accept;
        }
    }

    state parse_allreduce {
        packet.extract(hdr.allreduce);
        transition select(hdr.allreduce.lanes) {
            LANES: parse_lanes;
            default: accept;
        }
    }

    state parse_lanes {
        packet.extract(hdr.lanes);
        transition accept;
    }
}

control LabVerifyChecksum(inout lab_headers_t hdr, inout lab_metadata_t meta) {
    apply {
    }
}

// ---------------------------------------------------------------- the sums

// What a packet's lanes and the stored sums have to do with each other.
enum bit<2> Use {
    STORE = 0,                          // the first of a round: what was stored is forgotten
    ADD   = 1,                          // one more contribution
    READ  = 2                           // a result that is wanted again
}

// One lane, with a register of its own. Afterwards `lane` is the stored sum. `overflow` is set if the
// addition left int32, and otherwise stays as it was.
control Lane(inout bit<32> lane, in cell_t cell, in Use use, inout bit<1> overflow) {
    register<bit<32>>(CELLS) sums;

    apply {
        // TODO 2: store, add or read.
        // TODO 5: two numbers of the same sign whose sum has the other one have left int32.
    }
}

control Lanes(inout lanes_t lanes, in cell_t cell, in Use use, inout bit<1> overflow) {
    Lane() fold_0;
    Lane() fold_1;
    Lane() fold_2;
    Lane() fold_3;
    Lane() fold_4;
    Lane() fold_5;
    Lane() fold_6;
    Lane() fold_7;

    apply {
        fold_0.apply(lanes.lane_0, cell, use, overflow);
        fold_1.apply(lanes.lane_1, cell, use, overflow);
        fold_2.apply(lanes.lane_2, cell, use, overflow);
        fold_3.apply(lanes.lane_3, cell, use, overflow);
        fold_4.apply(lanes.lane_4, cell, use, overflow);
        fold_5.apply(lanes.lane_5, cell, use, overflow);
        fold_6.apply(lanes.lane_6, cell, use, overflow);
        fold_7.apply(lanes.lane_7, cell, use, overflow);
    }
}

// ---------------------------------------------------------------- the slot logic

// Takes a contribution that is as it should be. The packet is dropped unless one of the two actions
// decides otherwise; it leaves with the lanes and the overflow flag that it then has.
control Slots(inout lab_headers_t hdr, in lab_metadata_t meta, inout standard_metadata_t std) {
    Lanes() fold;

    // The packet becomes the result, for all workers.
    action send_to_all() {
        hdr.allreduce.kind = Kind.RESULT;
        std.mcast_grp = WORKERS_GROUP;
    }

    // The packet becomes the result, for the worker that sent it.
    action answer() {
        hdr.allreduce.kind = Kind.RESULT;
        std.egress_spec = std.ingress_port;
    }

    apply {
        // TODO 1: read the cell. Is the packet about its round, does it begin a new one, or is it of
        //         an old one? Chunk numbers wrap.
        // TODO 2: the first contribution of a round overwrites the sums, others are added.
        // TODO 3: nobody counts twice. The last one completes the round: its result goes to all.
        // TODO 4: whoever repeats a contribution to a complete round gets the stored result.
        // TODO 5: the round's overflow flag is remembered, and is part of its result.
    }
}

// ---------------------------------------------------------------- who, and where to

control LabIngress(inout lab_headers_t hdr, inout lab_metadata_t meta,
                   inout standard_metadata_t std) {
    Slots() slots;

    action be_worker(bit<8> index) {
        meta.own = 8w1 << index;
    }

    // Which worker is behind a port.
    table worker {
        key = { std.ingress_port: exact @name("port"); }
        actions = { be_worker; @defaultonly NoAction; }
        const default_action = NoAction();
        size = 16;
    }

    action set_job(workers_t all) {
        meta.all = all;
    }

    table job {
        key = { hdr.allreduce.job: exact @name("job"); }
        actions = { set_job; @defaultonly NoAction; }
        const default_action = NoAction();
        size = 16;
    }

    apply {
        mark_to_drop(std);
        if (hdr.lanes.isValid() && hdr.allreduce.kind == Kind.CONTRIBUTION && hdr.allreduce.epoch == 0) {
            bit<32> slot = (bit<32>)hdr.allreduce.slot;
            bit<32> version = (bit<32>)hdr.allreduce.version;
            if (hdr.allreduce.chunk & (CELLS - 1) == version * SLOTS + slot && slot < SLOTS) {
                meta.cell = version * SLOTS + slot;
                if (worker.apply().hit) {
                    if (job.apply().hit) {
                        slots.apply(hdr, meta, std);
                    }
                }
            }
        }
    }
}

control LabEgress(inout lab_headers_t hdr, inout lab_metadata_t meta,
                  inout standard_metadata_t std) {
    action address_to_host(mac_addr_t src_mac, mac_addr_t dst_mac, ipv4_addr_t dst) {
        hdr.ethernet.src = src_mac;
        hdr.ethernet.dst = dst_mac;
        hdr.ipv4.src = SWITCH_ADDRESS;
        hdr.ipv4.dst = dst;
        hdr.ipv4.ttl = 64;
    }

    // Who is behind a port that a result leaves by.
    table address {
        key = { std.egress_port: exact @name("port"); }
        actions = { address_to_host; @defaultonly NoAction; }
        const default_action = NoAction();
        size = 16;
    }

    apply {
        address.apply();
    }
}

control LabComputeChecksum(inout lab_headers_t hdr, inout lab_metadata_t meta) {
    apply {
        update_checksum(hdr.ipv4.isValid() && hdr.ipv4.ihl == 5,
            { hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.tos, hdr.ipv4.length, hdr.ipv4.id,
              hdr.ipv4.flags, hdr.ipv4.fragment, hdr.ipv4.ttl, hdr.ipv4.protocol,
              hdr.ipv4.src, hdr.ipv4.dst },
            hdr.ipv4.checksum, HashAlgorithm.csum16);
    }
}

control LabDeparser(packet_out packet, in lab_headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet);
        packet.emit(hdr.ipv4);
        packet.emit(hdr.udp);
        packet.emit(hdr.allreduce);
        packet.emit(hdr.lanes);
    }
}

V1Switch(LabParser(), LabVerifyChecksum(), LabIngress(), LabEgress(), LabComputeChecksum(),
         LabDeparser()) main;
