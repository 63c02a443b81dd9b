// A leaf that spreads flows over its uplinks: flowlet switching, written by hand.
//
//   hosts ---+                         +--- way 0 ---> spine
//            |  flow -> slot -> way ---+--- way 1 ---> spine
//   hosts ---+                         +--- way 2 ---> spine
//                                      +--- way 3 ---> spine
//
// Compile:  weft compile labs/flowlets-by-hand/starter.p4 -o build/flowlets
// Grade:    weft grade flowlets-by-hand --p4 labs/flowlets-by-hand/starter.p4
//
// It compiles and routes as it is: ECMP, a fixed way for each flow. The numbered TODOs in Spread make
// it flowlets; README.md explains each. Variables that the compiler calls unused are there for them.

#include <core.p4>
#include <v1model.p4>

typedef bit<9>  port_t;
typedef bit<48> mac_addr_t;
typedef bit<32> ipv4_addr_t;
typedef bit<48> ticks_t;                // of the switch's clock: it wraps
typedef bit<16> group_t;                // of ways that lead to the same hosts; 0: none
typedef bit<8>  way_t;                  // one of a group's ways, from 0
typedef bit<16> ways_t;                 // a set of them: bit n is way n
typedef bit<16> slot_t;
typedef bit<32> cell_t;                 // an index of the registers

const bit<16> ETHERTYPE_IPV4 = 0x0800;
const bit<8>  PROTOCOL_TCP = 6;
const bit<8>  PROTOCOL_UDP = 17;

const slot_t SLOTS = 12;                // as many for each of 1, 2, 3, 4 or 6 ways
const cell_t CELLS = 65536;

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
    bit<1>      reserved;
    bit<1>      dont_fragment;
    bit<1>      more_fragments;
    bit<13>     fragment;
    bit<8>      ttl;
    bit<8>      protocol;
    bit<16>     checksum;
    ipv4_addr_t src;
    ipv4_addr_t dst;
}

// What TCP and UDP begin with. A packet without it (ICMP, a fragment) belongs to no flow.
header ports_t {
    bit<16> src;
    bit<16> dst;
}

struct lab_headers_t {
    ethernet_t ethernet;
    ipv4_t     ipv4;
    ports_t    ports;
}

struct lab_metadata_t {
    bit<16> src_port;                   // 0 in what belongs to no flow
    bit<16> dst_port;
    group_t group;                      // the ways that lead to the destination
    ways_t  live;                       // those of them that are up
    ticks_t gap;                        // a pause of so many ticks or more ends a flowlet
    slot_t  slot;
    way_t   way;                        // the packet's
}

parser LabParser(packet_in packet, out lab_headers_t hdr, inout lab_metadata_t meta,
                 inout standard_metadata_t std) {
    state start {
        meta.src_port = 0;
        meta.dst_port = 0;
        meta.group = 0;
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.type) {
            ETHERTYPE_IPV4: parse_ipv4;
            default: accept;
        }
    }

    state parse_ipv4 {
        packet.extract(hdr.ipv4);
        transition select(hdr.ipv4.ihl, hdr.ipv4.more_fragments, hdr.ipv4.fragment,
                          hdr.ipv4.protocol) {
            (5, 0, 0, PROTOCOL_TCP): parse_ports;
            (5, 0, 0, PROTOCOL_UDP): parse_ports;
            default: accept;
        }
    }

    state parse_ports {
        packet.extract(hdr.ports);
        meta.src_port = hdr.ports.src;
        meta.dst_port = hdr.ports.dst;
        transition accept;
    }
}

control LabVerifyChecksum(inout lab_headers_t hdr, inout lab_metadata_t meta) {
    apply {
    }
}

// ---------------------------------------------------------------- which way

// Sets meta.way, to one of meta.live. All of it is ingress, which handles one packet after the other: what
// one packet writes into a register the next one reads.
control Spread(in lab_headers_t hdr, inout lab_metadata_t meta, in standard_metadata_t std) {
    // Of each flow, by its cell. A cell that was never written is 0 in both.
    register<ticks_t>(CELLS) last_times;        // when its last packet came
    register<way_t>(CELLS)   last_ways;         // and by which way it left

    // A fixed slot for each flow: ECMP.
    action hash_slot() {
        hash(meta.slot, HashAlgorithm.crc16, 16w0,
             { hdr.ipv4.src, hdr.ipv4.dst, hdr.ipv4.protocol, meta.src_port, meta.dst_port }, SLOTS);
    }

    action take(way_t way) {
        meta.way = way;
    }

    // The control plane spreads the slots evenly over the ways that are up.
    table way_of_slot {
        key = {
            meta.group: exact @name("group");
            meta.slot: exact @name("slot");
        }
        actions = { take; @defaultonly NoAction; }
        const default_action = NoAction();
        size = 256;
    }

    apply {
        hash_slot();
        // For packets of flows, those with hdr.ports:
        // TODO 1: the flow's cell. What tells two flows apart?
        // TODO 2: how long has the flow paused, and is that less than meta.gap? Times wrap, and a cell
        //         that was never written says 0.
        // TODO 3: within a flowlet the way stays, if it is up. A new one draws its slot:
        //         random(meta.slot, 0, SLOTS - 1), and takes the slot's way.
        way_of_slot.apply();
        // TODO 4: remember this packet's time and way. Which packets do that?
    }
}

// ---------------------------------------------------------------- where to

control LabIngress(inout lab_headers_t hdr, inout lab_metadata_t meta,
                   inout standard_metadata_t std) {
    Spread() spread;

    action forward(port_t port, mac_addr_t src_mac, mac_addr_t dst_mac) {
        std.egress_spec = port;
        hdr.ethernet.src = src_mac;
        hdr.ethernet.dst = dst_mac;
        hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
    }

    action to_group(group_t group) {
        meta.group = group;
    }

    // A host that is here, or the group of ways to those elsewhere.
    table route {
        key = { hdr.ipv4.dst: lpm @name("dst"); }
        actions = { forward; to_group; @defaultonly NoAction; }
        const default_action = NoAction();
        size = 1024;
    }

    action spread_over(ways_t live, ticks_t gap) {
        meta.live = live;
        meta.gap = gap;
    }

    table ways {
        key = { meta.group: exact @name("group"); }
        actions = { spread_over; @defaultonly NoAction; }
        const default_action = NoAction();
        size = 16;
    }

    // A way that is down has no entry: what takes it is lost.
    table uplink {
        key = {
            meta.group: exact @name("group");
            meta.way: exact @name("way");
        }
        actions = { forward; @defaultonly NoAction; }
        const default_action = NoAction();
        size = 256;
    }

    apply {
        // Forgetting to decide must never mean port 0.
        mark_to_drop(std);
        if (std.parser_error == error.NoError && hdr.ipv4.isValid() && hdr.ipv4.ihl == 5 &&
            hdr.ipv4.ttl > 1) {
            route.apply();
            if (meta.group != 0 && ways.apply().hit) {
                spread.apply(hdr, meta, std);
                uplink.apply();
            }
        }
    }
}

control LabEgress(inout lab_headers_t hdr, inout lab_metadata_t meta,
                  inout standard_metadata_t std) {
    apply {
    }
}

control LabComputeChecksum(inout lab_headers_t hdr, inout lab_metadata_t meta) {
    apply {
        update_checksum(hdr.ipv4.isValid() && hdr.ipv4.ihl == 5,
            { hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.tos, hdr.ipv4.length, hdr.ipv4.id,
              hdr.ipv4.reserved, hdr.ipv4.dont_fragment, hdr.ipv4.more_fragments,
              hdr.ipv4.fragment, hdr.ipv4.ttl, hdr.ipv4.protocol, hdr.ipv4.src, hdr.ipv4.dst },
            hdr.ipv4.checksum, HashAlgorithm.csum16);
    }
}

control LabDeparser(packet_out packet, in lab_headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet);
        packet.emit(hdr.ipv4);
        packet.emit(hdr.ports);
    }
}

V1Switch(LabParser(), LabVerifyChecksum(), LabIngress(), LabEgress(), LabComputeChecksum(),
         LabDeparser()) main;
