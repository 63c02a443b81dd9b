// A switch that goes round its dead ways by itself: local repair, made by hand.
//
//                         candidates   all ways that lead to the leaf           (the control plane says)
//   packet -> route ----> & ~down      those that are dead                      (heartbeats would say)
//                         & ~mask      those that can't reach this leaf         (neighbours would say)
//                         = usable ----> the flow's own way, or another one     (you say)
//
// Compile:  weft compile labs/dpfr/starter.p4 -o build/repair
// Grade:    weft grade dpfr --p4 labs/dpfr/starter.p4
//
// It compiles, and routes as long as nothing is dead. The numbered TODOs make it repair; README.md
// explains each. What the compiler calls unused is there for them.

#include <core.p4>
#include <v1model.p4>

typedef bit<9>  port_t;
typedef bit<48> mac_addr_t;
typedef bit<32> ipv4_addr_t;
typedef bit<8>  way_t;                  // a port to another switch, numbered from 0 to 7
typedef bit<8>  ways_t;                 // a set of them: bit n is way n
typedef bit<32> leaf_t;                 // the number of a leaf

const bit<16> ETHERTYPE_IPV4 = 0x0800;
const bit<8>  PROTOCOL_UDP = 17;
const bit<32> LEAVES = 256;

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
    bit<16> checksum;
}

struct lab_headers_t {
    ethernet_t ethernet;
    ipv4_t     ipv4;
    udp_t      udp;
}

struct lab_metadata_t {
    leaf_t  leaf;                       // where the packet is going
    ways_t  candidates;                 // the ways that lead there
    way_t   way;                        // the one that the packet takes
    bit<6>  bucket;                     // by which the flow's own way is found
    bit<16> draw;                       // another hash of the flow, evenly from 0 to 65535
}

// ---------------------------------------------------------------- what the switch remembers

register<ways_t>(1) down;               // the ways that are dead
register<ways_t>(LEAVES) masks;         // by leaf: the ways that can't reach it
counter(LEAVES, CounterType.packets) no_way;    // by leaf: packets for which no way was left

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
        transition accept;
    }
}

control LabVerifyChecksum(inout lab_headers_t hdr, inout lab_metadata_t meta) {
    apply {
    }
}

// ---------------------------------------------------------------- another way

// One of `ways`, which are not none. A flow's draw gives it the same one each time, and all draws
// together give each way as many flows as any other.
control PickWay(in ways_t ways, in bit<16> draw, out way_t way) {
    apply {
        // TODO 4: count the ways, let the draw say which of them it is, and find it.
        way = 0;
    }
}

// ---------------------------------------------------------------- where to

control LabIngress(inout lab_headers_t hdr, inout lab_metadata_t meta,
                   inout standard_metadata_t std) {
    PickWay() pick_way;

    action set_leaf(leaf_t number, ways_t candidates) {
        meta.leaf = number;
        meta.candidates = candidates;
    }

    // Behind which leaf the destination is, and by which ways that is reached.
    table route {
        key = { hdr.ipv4.dst: lpm @name("dst"); }
        actions = { set_leaf; @defaultonly NoAction; }
        const default_action = NoAction();
        size = 256;
    }

    action set_way(way_t way) {
        meta.way = way;
    }

    // The flow's own way, as long as nothing is dead.
    table own_way {
        key = {
            meta.leaf: exact @name("leaf");
            meta.bucket: exact @name("bucket");
        }
        actions = { set_way; @defaultonly NoAction; }
        const default_action = NoAction();
        size = 16384;
    }

    action forward(port_t port, mac_addr_t src_mac, mac_addr_t dst_mac) {
        std.egress_spec = port;
        hdr.ethernet.src = src_mac;
        hdr.ethernet.dst = dst_mac;
        hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
    }

    table way_port {
        key = { meta.way: exact @name("way"); }
        actions = { forward; @defaultonly NoAction; }
        const default_action = NoAction();
        size = 8;
    }

    apply {
        mark_to_drop(std);
        if (hdr.udp.isValid() && hdr.ipv4.ttl > 1 && route.apply().hit) {
            hash(meta.bucket, HashAlgorithm.crc32, 6w0,
                 { hdr.ipv4.src, hdr.ipv4.dst, hdr.udp.src_port, hdr.udp.dst_port }, 32w64);
            hash(meta.draw, HashAlgorithm.crc16, 16w0,
                 { hdr.udp.dst_port, hdr.udp.src_port, hdr.ipv4.dst, hdr.ipv4.src }, 32w65536);
            own_way.apply();
            // TODO 1: which ways are usable? Candidates that are not dead, and can reach this leaf.
            // TODO 2: none: the packet is dropped, and counted in no_way at its leaf's number.
            // TODO 3: the flow's own way is one of them: it stays there, as its packets are in order.
            // else: another one, which pick_way finds (TODO 4).
            way_port.apply();
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
        update_checksum(hdr.ipv4.isValid(),
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
    }
}

V1Switch(LabParser(), LabVerifyChecksum(), LabIngress(), LabEgress(), LabComputeChecksum(),
         LabDeparser()) main;
